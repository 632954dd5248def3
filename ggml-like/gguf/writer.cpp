// The writer keeps encoded metadata and tensor records in memory and checks them together in begin_data(), so
// that the setters need no results. Layout rules are those that parser.cpp checks; system calls are in
// output_file.
#include "ggml-like/gguf/writer.h"

#include <cinttypes>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/output_file.h"
#include "ggml-like/gguf/packed.h"

namespace tessera::gguf {

namespace {

// Ids that ggml may assign are below; private ids, of tessera and other programs, are above.
constexpr uint32_t kFirstPrivateType = 0x10000;

template <class T>
void put(std::string& out, T value) {
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    out.append(raw, sizeof(T));
}

void put_string(std::string& out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out += text;
}

void put_type(std::string& out, ValueType type) { put(out, static_cast<uint32_t>(type)); }

std::span<const std::byte> as_bytes(std::string_view text) {
    return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string_view as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A type id and a string array's or any other value's bytes, as they follow the key in the file.
std::string encode(const Value& value) {
    std::string out;
    put_type(out, value.type());
    if (!value.is_array()) {
        if (value.type() == ValueType::String) put<uint64_t>(out, value.raw().size());
        out += as_text(value.raw());
        return out;
    }
    put_type(out, value.element_type());
    put<uint64_t>(out, value.size());
    if (value.element_type() != ValueType::String)
        out += as_text(value.raw());
    else
        for (uint64_t i = 0; i < value.size(); i++) put_string(out, *value.at(i).as_string());
    return out;
}

/// Appends `value` as a T if it fits.
template <class T>
bool put_checked(std::string& out, int64_t value) {
    if (!std::in_range<T>(value)) return false;
    put(out, static_cast<T>(value));
    return true;
}

bool put_int(std::string& out, ValueType type, int64_t value) {
    switch (type) {
        case ValueType::U8:
            return put_checked<uint8_t>(out, value);
        case ValueType::I8:
            return put_checked<int8_t>(out, value);
        case ValueType::U16:
            return put_checked<uint16_t>(out, value);
        case ValueType::I16:
            return put_checked<int16_t>(out, value);
        case ValueType::U32:
            return put_checked<uint32_t>(out, value);
        case ValueType::I32:
            return put_checked<int32_t>(out, value);
        case ValueType::U64:
            return put_checked<uint64_t>(out, value);
        case ValueType::I64:
            return put_checked<int64_t>(out, value);
        default:
            return false;
    }
}

}  // namespace

struct Writer::State {
    struct Entry {
        std::string key;
        std::string encoded;  // type and value
    };
    struct Tensor {
        std::string name;
        std::vector<int64_t> shape;
        uint32_t type_id;
        uint64_t n_bytes;
        uint64_t offset;
    };
    enum class Phase { Metadata, Data, Finished };

    std::string path;
    uint32_t alignment;
    Phase phase = Phase::Metadata;
    std::optional<Error> error;  // the first one

    std::vector<Entry> entries;
    std::unordered_map<std::string, size_t> entry_of;
    std::vector<Tensor> tensors;
    uint64_t metadata_bytes = kHeaderBytes;  // keys and records so far, before padding
    uint64_t data_bytes = 0;                 // of the tensors so far, with padding

    OutputFile out;
    size_t current = 0;    // tensor being written
    uint64_t written = 0;  // of its bytes

    uint64_t padding_of(uint64_t n) const { return align_up(n, alignment) - n; }

    void set_error(Error what) {
        if (!error) error = std::move(what);
    }
    void set(std::string_view key, std::string encoded);
    void reject(std::string_view key, const std::string& why);
    Result<void> check();
    Result<void> check_alignment();
    Result<void> check_tensors() const;
    std::string encode_metadata() const;
    Result<void> pad(uint64_t n);
    Result<void> in_phase(Phase wanted, const char* call) const;

    /// Runs one step of writing, unless there was an error; its own error then sticks.
    template <class Step>
    Result<void> guarded(const Step& step) {
        if (error) return tl::unexpected<Error>(*error);
        Result<void> done = step();
        if (!done) error = done.error();
        return done;
    }
};

void Writer::State::reject(std::string_view key, const std::string& why) {
    set_error({ErrorCode::InvalidArgument,
               strf("%s: key '%s': %s", printable(path, 400).c_str(), printable(key).c_str(), why.c_str())});
}

void Writer::State::set(std::string_view key, std::string encoded) {
    if (phase != Phase::Metadata) return reject(key, "set after the metadata was written");
    if (key.empty() || key.size() > kMaxKeyBytes || !is_clean_name(key)) {
        return reject(key, "expected a name of 1 to 65535 bytes of UTF-8 without control characters");
    }
    const auto [at, is_new] = entry_of.try_emplace(std::string(key), entries.size());
    if (is_new) {
        entries.push_back({std::string(key), std::string()});
        metadata_bytes += sizeof(uint64_t) + key.size();
    }
    Entry& entry = entries[at->second];
    metadata_bytes += encoded.size();
    metadata_bytes -= entry.encoded.size();
    entry.encoded = std::move(encoded);
}

Writer::Writer(std::string path, uint32_t alignment) : state_(std::make_unique<State>()) {
    state_->path = std::move(path);
    state_->alignment = alignment;
    if (is_valid_alignment(alignment)) return;
    state_->alignment = kDefaultAlignment;
    state_->reject(kAlignmentKey, strf("expected a power of two from 1 to %" PRIu32 ", found %" PRIu32,
                                       kMaxAlignment, alignment));
}

Writer::~Writer() = default;
Writer::Writer(Writer&&) noexcept = default;

void Writer::set_int(std::string_view key, ValueType type, int64_t value) {
    std::string encoded;
    put_type(encoded, type);
    if (put_int(encoded, type, value)) return state_->set(key, std::move(encoded));
    state_->reject(key, strf("%" PRId64 " does not fit the type %s", value, value_type_name(type)));
}

void Writer::set_float(std::string_view key, double value, ValueType type) {
    std::string encoded;
    put_type(encoded, type);
    const bool fits = !std::isfinite(value) || std::abs(value) <= std::numeric_limits<float>::max();
    if (type == ValueType::F32 && fits)
        put(encoded, static_cast<float>(value));
    else if (type == ValueType::F64)
        put(encoded, value);
    else
        return state_->reject(key, strf("%g does not fit the type %s", value, value_type_name(type)));
    state_->set(key, std::move(encoded));
}

void Writer::set_bool(std::string_view key, bool value) {
    std::string encoded;
    put_type(encoded, ValueType::Bool);
    put<uint8_t>(encoded, value);
    state_->set(key, std::move(encoded));
}

void Writer::set_string(std::string_view key, std::string_view value) {
    std::string encoded;
    put_type(encoded, ValueType::String);
    put_string(encoded, value);
    state_->set(key, std::move(encoded));
}

void Writer::set_strings(std::string_view key, std::span<const std::string> values) {
    std::string encoded;
    put_type(encoded, ValueType::Array);
    put_type(encoded, ValueType::String);
    put<uint64_t>(encoded, values.size());
    for (const std::string& value : values) put_string(encoded, value);
    state_->set(key, std::move(encoded));
}

void Writer::set_array(std::string_view key, ValueType element, std::span<const std::byte> packed) {
    const uint64_t size = value_bytes(element);
    if (size == 0 || packed.size() % size != 0) {
        return state_->reject(key,
                              strf("%zu bytes are no array of %s", packed.size(), value_type_name(element)));
    }
    if (element == ValueType::Bool) {
        for (const std::byte b : packed) {
            if (b > std::byte{1}) return state_->reject(key, "expected bools to be 0 or 1");
        }
    }
    std::string encoded;
    put_type(encoded, ValueType::Array);
    put_type(encoded, element);
    put<uint64_t>(encoded, packed.size() / size);
    encoded += as_text(packed);
    state_->set(key, std::move(encoded));
}

void Writer::set_value(std::string_view key, const Value& value) { state_->set(key, encode(value)); }

void Writer::add_tensor(std::string_view name, std::span<const int64_t> shape, uint32_t type_id,
                        uint64_t n_bytes) {
    State& s = *state_;
    if (s.phase != State::Phase::Metadata) {
        return s.set_error(
            {ErrorCode::InvalidArgument,
             strf("tensor '%s': added after the metadata was written", printable(name).c_str())});
    }
    s.tensors.push_back({std::string(name), {shape.begin(), shape.end()}, type_id, n_bytes, s.data_bytes});
    s.metadata_bytes += 8 + name.size() + 4 + 8 * shape.size() + 4 + 8;
    s.data_bytes += n_bytes + s.padding_of(n_bytes);
}

uint64_t Writer::total_bytes() const {
    const State& s = *state_;
    uint64_t n = s.metadata_bytes;
    if (s.alignment != kDefaultAlignment && !s.entry_of.contains(std::string(kAlignmentKey))) {
        n += 8 + kAlignmentKey.size() + 4 + 4;
    }
    return align_up(n, s.alignment) + s.data_bytes;
}

Result<void> Writer::State::in_phase(Phase wanted, const char* call) const {
    if (phase == wanted) return {};
    return fail(ErrorCode::InvalidArgument, "%s: %s called %s", printable(path, 400).c_str(), call,
                phase < wanted ? "before begin_data()" : "too late or twice");
}

Result<void> Writer::State::check_alignment() {
    std::string expected;
    put_type(expected, ValueType::U32);
    put(expected, alignment);
    const auto found = entry_of.find(std::string(kAlignmentKey));
    if (found == entry_of.end()) {
        if (alignment != kDefaultAlignment) set(kAlignmentKey, expected);
        return {};
    }
    if (entries[found->second].encoded == expected) return {};
    return fail(ErrorCode::InvalidArgument,
                "%s: key 'general.alignment': expected u32 %" PRIu32 ", the alignment of this writer",
                printable(path, 400).c_str(), alignment);
}

Result<void> Writer::State::check_tensors() const {
    std::unordered_set<std::string_view> names;
    for (const Tensor& tensor : tensors) {
        const std::string shown = printable(tensor.name);
        if (tensor.name.empty() || tensor.name.size() > kMaxTensorNameBytes || !is_clean_name(tensor.name)) {
            return fail(ErrorCode::InvalidArgument,
                        "tensor '%s': expected a name of 1 to %" PRIu64
                        " bytes of UTF-8 without control characters",
                        shown.c_str(), kMaxTensorNameBytes);
        }
        if (!names.insert(tensor.name).second) {
            return fail(ErrorCode::InvalidArgument, "tensor '%s' occurs twice", shown.c_str());
        }
        // The size of another program's private type is unknown, but its shape is checked.
        const bool is_private = tensor.type_id >= kFirstPrivateType && !is_packed_type_id(tensor.type_id);
        const auto type =
            is_private ? Result<StoredType>({Type::I8, Layout::Rows}) : stored_type_from_id(tensor.type_id);
        if (!type) return fail_in("tensor '" + shown + "'", type.error());
        TSR_TRY(const uint64_t expected, stored_bytes(tensor.name, tensor.shape, *type));
        if (tensor.n_bytes == 0 || (!is_private && tensor.n_bytes != expected)) {
            return fail(ErrorCode::InvalidArgument, "tensor '%s': expected %" PRIu64 " bytes, found %" PRIu64,
                        shown.c_str(), expected, tensor.n_bytes);
        }
    }
    return {};
}

std::string Writer::State::encode_metadata() const {
    std::string bytes;
    bytes.reserve(align_up(metadata_bytes, alignment));
    bytes += kMagic;
    put(bytes, kVersion);
    put<uint64_t>(bytes, tensors.size());
    put<uint64_t>(bytes, entries.size());
    for (const Entry& entry : entries) {
        put_string(bytes, entry.key);
        bytes += entry.encoded;
    }
    for (const Tensor& tensor : tensors) {
        put_string(bytes, tensor.name);
        put(bytes, static_cast<uint32_t>(tensor.shape.size()));
        for (size_t d = tensor.shape.size(); d-- > 0;) put(bytes, tensor.shape[d]);
        put(bytes, tensor.type_id);
        put(bytes, tensor.offset);
    }
    bytes.resize(align_up(bytes.size(), alignment), '\0');
    return bytes;
}

Result<void> Writer::State::check() {
    TSR_TRY_VOID(in_phase(Phase::Metadata, "begin_data()"));
    TSR_TRY_VOID(check_alignment());
    auto checked = check_tensors();
    if (!checked) return fail_in(printable(path, 400), std::move(checked.error()));
    return {};
}

Result<std::vector<std::byte>> Writer::head() {
    State& s = *state_;
    TSR_TRY_VOID(s.guarded([&] { return s.check(); }));
    const std::string bytes = s.encode_metadata();
    const auto begin = as_bytes(bytes);
    return std::vector<std::byte>(begin.begin(), begin.end());
}

Result<void> Writer::begin_data() {
    State& s = *state_;
    return s.guarded([&]() -> Result<void> {
        TSR_TRY_VOID(s.check());
        s.phase = State::Phase::Data;
        TSR_TRY_VOID(s.out.create(s.path));
        return s.out.append(as_bytes(s.encode_metadata()));
    });
}

Result<void> Writer::State::pad(uint64_t n) {
    const std::string zeros(padding_of(n), '\0');
    return out.append(as_bytes(zeros));
}

Result<void> Writer::write(std::span<const std::byte> bytes) {
    State& s = *state_;
    return s.guarded([&]() -> Result<void> {
        TSR_TRY_VOID(s.in_phase(State::Phase::Data, "write()"));
        if (bytes.empty()) return {};
        if (s.current == s.tensors.size()) {
            return fail(ErrorCode::InvalidArgument, "%s: %zu bytes were written after the last tensor",
                        printable(s.path, 400).c_str(), bytes.size());
        }
        const State::Tensor& tensor = s.tensors[s.current];
        if (bytes.size() > tensor.n_bytes - s.written) {
            return fail(ErrorCode::InvalidArgument,
                        "%s: tensor '%s': %zu bytes were written where %" PRIu64 " of its %" PRIu64
                        " were left",
                        printable(s.path, 400).c_str(), printable(tensor.name).c_str(), bytes.size(),
                        tensor.n_bytes - s.written, tensor.n_bytes);
        }
        TSR_TRY_VOID(s.out.append(bytes));
        s.written += bytes.size();
        if (s.written < tensor.n_bytes) return {};
        s.current++;
        s.written = 0;
        return s.pad(tensor.n_bytes);
    });
}

Result<void> Writer::complete(bool keep_open) {
    State& s = *state_;
    return s.guarded([&]() -> Result<void> {
        TSR_TRY_VOID(s.in_phase(State::Phase::Data, "finish()"));
        if (s.current < s.tensors.size()) {
            const State::Tensor& tensor = s.tensors[s.current];
            return fail(
                ErrorCode::InvalidArgument, "%s: tensor '%s' has only %" PRIu64 " of its %" PRIu64 " bytes",
                printable(s.path, 400).c_str(), printable(tensor.name).c_str(), s.written, tensor.n_bytes);
        }
        s.phase = State::Phase::Finished;
        return s.out.complete(keep_open);
    });
}

Result<void> Writer::publish(bool sync) {
    return state_->guarded([&]() -> Result<void> {
        TSR_TRY_VOID(state_->in_phase(State::Phase::Finished, "publish()"));
        return state_->out.publish(sync);
    });
}

Result<void> Writer::finish() {
    TSR_TRY_VOID(complete());
    return publish();
}

}  // namespace tessera::gguf
