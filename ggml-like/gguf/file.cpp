// The opened file: joins the shards of a split, applies overrides, answers look-ups. The validation of each
// file's bytes is in parser.cpp; here are the rules between files and the typed access to keys.
#include "ggml-like/gguf/file.h"

#include <cinttypes>
#include <cmath>
#include <utility>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/packed.h"
#include "ggml-like/gguf/parser.h"

namespace tessera::gguf {

struct File::State {
    std::string path;
    uint32_t version = 0;
    uint64_t alignment = 0;
    uint64_t total_bytes = 0;
    std::vector<MappedFile> mappings;  // [number of files]
    std::vector<Override> overrides;   // viewed by overridden Values
    Metadata metadata;
    std::vector<TensorInfo> tensors;
    NameIndex tensor_index;

    struct Shard {
        std::string path;
        MappedFile mapping;
        Parser parser;
    };
    static Result<Shard> open_shard(const std::string& path);
    static Result<void> open_siblings(const SplitName& name, std::vector<Shard>& shards);
    static Result<File> assemble(std::vector<Shard> shards, const Options& options);
    Result<void> apply_overrides(const std::vector<Override>& wanted);
    bool has_key(std::string_view key) const;
    tl::unexpected<Error> unknown_key(const Override& item) const;
    Result<void> index_tensors();
    std::string_view tensor_name(uint32_t i) const { return tensors[i].name; }
};

namespace {

constexpr int64_t kMaxShards = 99999;  // five digits in a file name

std::string shown(const std::string& path) { return printable(path, 400); }

std::string describe_range(int64_t min, int64_t max) {
    if (min == max) return strf("the integer %" PRId64, min);
    if (max == INT64_MAX) return strf("an integer of at least %" PRId64, min);
    return strf("an integer from %" PRId64 " to %" PRId64, min, max);
}

Result<int64_t> split_value(const std::optional<Value>& value, std::string_view key, int64_t min,
                            int64_t max) {
    const std::string name(key);
    if (!value) {
        return fail(ErrorCode::Malformed, "key '%s' is missing, which every shard of a split must have",
                    name.c_str());
    }
    const auto number = value->as_int();
    if (!number || *number < min || *number > max) {
        return fail(ErrorCode::Malformed, "key '%s': expected %s, found %s", name.c_str(),
                    describe_range(min, max).c_str(), describe(*value).c_str());
    }
    return *number;
}

/// The split that the first file belongs to: nothing for a single file.
Result<std::optional<SplitName>> find_split(const std::string& path, const Parser& parser) {
    if (!parser.split_count) return std::optional<SplitName>();
    TSR_TRY(const int64_t count, split_value(parser.split_count, kSplitCountKey, 0, kMaxShards));
    if (count <= 1) {
        const auto n_tensors = static_cast<int64_t>(parser.n_tensors);
        if (parser.split_tensors) {
            TSR_TRY_VOID(split_value(parser.split_tensors, kSplitTensorsKey, n_tensors, n_tensors));
        }
        return std::optional<SplitName>();
    }
    TSR_TRY(const int64_t number, split_value(parser.split_no, kSplitNoKey, 0, count - 1));
    auto name = parse_split_name(path);
    if (number != 0) {
        std::string first = "the file that ends in '" + split_path("", 1, static_cast<int>(count)) + "'";
        if (name && name->count == count) first = "'" + shown(split_path(name->prefix, 1, name->count)) + "'";
        return fail(ErrorCode::InvalidArgument,
                    "this is shard %" PRId64 " of %" PRId64 " of a split model; open its shard 1: %s",
                    number + 1, count, first.c_str());
    }
    if (!name || name->number != 1 || name->count != count) {
        return fail(ErrorCode::Malformed,
                    "this is shard 1 of %" PRId64
                    " (keys split.no, split.count), so its name must end in '%s' for the "
                    "other shards to be found",
                    count, split_path("", 1, static_cast<int>(count)).c_str());
    }
    return name;
}

Result<void> check_sibling(const Parser& parser, int number, int count, const std::optional<Value>& total) {
    TSR_TRY_VOID(split_value(parser.split_count, kSplitCountKey, count, count));
    TSR_TRY_VOID(split_value(parser.split_no, kSplitNoKey, number - 1, number - 1));
    TSR_TRY(const int64_t n_tensors, split_value(total, kSplitTensorsKey, 0, INT64_MAX));
    TSR_TRY_VOID(split_value(parser.split_tensors, kSplitTensorsKey, n_tensors, n_tensors));
    return {};
}

bool is_container_key(std::string_view key) {
    return key == kAlignmentKey || is_split_key(key) || is_packed_key(key);
}

}  // namespace

Result<File::State::Shard> File::State::open_shard(const std::string& path) {
    TSR_TRY(MappedFile mapping, MappedFile::open(path));
    Shard shard{path, std::move(mapping), Parser({})};
    shard.parser = Parser(shard.mapping.bytes());
    auto walked = shard.parser.walk();
    if (!walked) return fail_in(shown(path), std::move(walked.error()));
    return shard;
}

Result<void> File::State::open_siblings(const SplitName& name, std::vector<Shard>& shards) {
    for (int number = 1; number <= name.count; number++) {
        const std::string path = split_path(name.prefix, number, name.count);
        if (number > 1) {
            auto shard = open_shard(path);
            if (!shard) return fail_in(strf("shard %d of %d", number, name.count), std::move(shard.error()));
            shards.push_back(std::move(*shard));
        }
        auto checked =
            check_sibling(shards.back().parser, number, name.count, shards[0].parser.split_tensors);
        if (!checked) return fail_in(shown(path), std::move(checked.error()));
    }
    return {};
}

Result<File> File::State::assemble(std::vector<Shard> shards, const Options& options) {
    auto state = std::make_unique<State>();
    state->path = shards[0].path;
    state->version = shards[0].parser.version;
    state->alignment = shards[0].parser.alignment;
    uint64_t n_tensors = 0;
    for (const Shard& shard : shards) n_tensors += shard.parser.n_tensors;
    if (n_tensors > NameIndex::kMaxNames) {
        return fail(ErrorCode::Malformed, "%s: expected fewer than 2^32 tensors in all shards",
                    shown(state->path).c_str());
    }
    state->tensors.reserve(n_tensors);
    state->mappings.reserve(shards.size());
    for (size_t i = 0; i < shards.size(); i++) {
        Parser& parser = shards[i].parser;
        auto metadata = parser.build_keys(i == 0 ? options.overrides.size() : 0);
        if (!metadata) return fail_in(shown(shards[i].path), std::move(metadata.error()));
        if (i == 0) state->metadata = std::move(*metadata);
        auto appended = parser.append_tensors(state->tensors, static_cast<int>(i));
        if (!appended) return fail_in(shown(shards[i].path), std::move(appended.error()));
        state->total_bytes += parser.bytes.size();
        state->mappings.push_back(std::move(shards[i].mapping));
    }
    const auto claimed = shards[0].parser.split_tensors;
    const auto finish = [&]() -> Result<void> {
        if (shards.size() > 1 && static_cast<uint64_t>(*claimed->as_int()) != n_tensors) {
            return fail(
                ErrorCode::Malformed,
                "key 'split.tensors.count': expected the number of tensors of the %zu shards, %" PRIu64
                ", found %s",
                shards.size(), n_tensors, describe(*claimed).c_str());
        }
        TSR_TRY_VOID(state->index_tensors());
        return state->apply_overrides(options.overrides);
    };
    auto finished = finish();
    if (!finished) return fail_in(shown(state->path), std::move(finished.error()));
    return File(std::move(state));
}

Result<void> File::State::index_tensors() {
    tensor_index = NameIndex(tensors.size());
    for (uint32_t i = 0; i < tensors.size(); i++) {
        const uint32_t before =
            tensor_index.insert(tensors[i].name, i, [this](uint32_t at) { return tensor_name(at); });
        if (before == NameIndex::kNone) continue;
        return fail(ErrorCode::Malformed,
                    "tensor '%s' occurs twice, as number %" PRIu32 " and number %" PRIu32,
                    printable(tensors[i].name).c_str(), before + 1, i + 1);
    }
    return {};
}

bool File::State::has_key(std::string_view key) const {
    return metadata.index.find(key, [this](uint32_t at) { return metadata.key_at(at); }) != NameIndex::kNone;
}

tl::unexpected<Error> File::State::unknown_key(const Override& item) const {
    std::vector<std::string_view> names;
    for (const KeyValue& entry : metadata.keys) names.push_back(entry.key);
    const std::string nearest(nearest_name(item.key, names));
    return fail(ErrorCode::NotFound,
                "override of key '%s': the file has no such key%s%s%s (+KEY=... adds one)",
                printable(item.key).c_str(), nearest.empty() ? "" : "; did you mean '",
                printable(nearest).c_str(), nearest.empty() ? "" : "'?");
}

Result<void> File::State::apply_overrides(const std::vector<Override>& wanted) {
    overrides = wanted;
    for (const Override& item : overrides) {
        if (is_container_key(item.key)) {
            return fail(ErrorCode::InvalidArgument,
                        "key '%s' describes the layout of the file and cannot be overridden",
                        item.key.c_str());
        }
        if (!item.adds && !has_key(item.key)) return unknown_key(item);
        Value value;
        value.type_ = item.type;
        switch (item.type) {
            case ValueType::I64:
            case ValueType::Bool:
                value.data_ = &item.i;
                break;
            case ValueType::F64:
                value.data_ = &item.f;
                break;
            case ValueType::String:
                value.data_ = item.s.data();
                value.count_ = item.s.size();
                break;
            default:
                return fail(ErrorCode::InvalidArgument,
                            "override of key '%s': expected i64, f64, bool or string, found %s",
                            printable(item.key).c_str(), value_type_name(item.type));
        }
        const auto position = static_cast<uint32_t>(metadata.keys.size());
        const uint32_t before =
            metadata.index.insert(item.key, position, [this](uint32_t at) { return metadata.key_at(at); });
        if (before == NameIndex::kNone)
            metadata.keys.push_back({item.key, value});
        else
            metadata.keys[before].value = value;
    }
    return {};
}

Result<File> File::open(const std::string& path, const Options& options) {
    std::vector<State::Shard> shards;
    TSR_TRY(State::Shard first, State::open_shard(path));
    shards.push_back(std::move(first));
    auto split = find_split(path, shards[0].parser);
    if (!split) return fail_in(shown(path), std::move(split.error()));
    if (*split) TSR_TRY_VOID(State::open_siblings(**split, shards));
    return State::assemble(std::move(shards), options);
}

Result<File> File::parse(std::span<const std::byte> bytes, const std::string& name, const Options& options) {
    State::Shard shard{name, MappedFile(), Parser(bytes)};
    auto walked = shard.parser.walk();
    if (!walked) return fail_in(shown(name), std::move(walked.error()));
    std::vector<State::Shard> shards;
    shards.push_back(std::move(shard));
    return State::assemble(std::move(shards), options);
}

File::File(std::unique_ptr<State> state) : state_(std::move(state)) {}
File::File(File&&) noexcept = default;
File& File::operator=(File&&) noexcept = default;
File::~File() = default;

const std::string& File::path() const { return state_->path; }
uint32_t File::version() const { return state_->version; }
uint64_t File::alignment() const { return state_->alignment; }
int File::n_files() const { return static_cast<int>(state_->mappings.size()); }
uint64_t File::total_bytes() const { return state_->total_bytes; }
std::span<const KeyValue> File::keys() const { return state_->metadata.keys; }
std::span<const TensorInfo> File::tensors() const { return state_->tensors; }
const Value* File::find(std::string_view key) const { return state_->metadata.find(key); }

const MappedFile& File::mapping(int file_index) const {
    TSR_CHECK(file_index >= 0 && file_index < n_files());
    return state_->mappings[static_cast<size_t>(file_index)];
}

Result<const std::byte*> File::read(std::span<const std::byte> data, std::byte* room) const {
    const Place place = place_of(data);
    if (!place.file) return data.data();
    TSR_TRY_VOID(place.file->read(place.offset, {room, data.size()}));
    return room;
}

void File::release(std::span<const std::byte> data) const {
    if (const Place place = place_of(data); place.file) place.file->release(place.offset, data.size());
}

void File::touch(std::span<const std::byte> data) const {
    if (const Place place = place_of(data); place.file) place.file->touch(place.offset, data.size());
}

File::Place File::place_of(std::span<const std::byte> data) const {
    for (const MappedFile& mapping : state_->mappings) {
        const std::span<const std::byte> all = mapping.bytes();
        const bool inside = data.data() >= all.data() && data.data() < all.data() + all.size();
        if (inside) return {&mapping, static_cast<size_t>(data.data() - all.data())};
    }
    return {nullptr, 0};
}

bool File::is_packed() const { return find(kPackedVersionKey) != nullptr; }

const TensorInfo* File::find_tensor(std::string_view name) const {
    const uint32_t at =
        state_->tensor_index.find(name, [this](uint32_t i) { return state_->tensor_name(i); });
    return at == NameIndex::kNone ? nullptr : &state_->tensors[at];
}

int64_t TensorInfo::n_elements() const {
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= shape[d];
    return n;
}

uint32_t TensorInfo::type_id() const { return stored_type_id({type, layout}); }

std::string TensorInfo::shape_string() const {
    return gguf::shape_string({shape, static_cast<size_t>(n_dims)});
}

Result<const Value*> File::require(std::string_view key, const char* expected) const {
    const Value* value = find(key);
    if (value) return value;
    return fail(ErrorCode::NotFound, "%s: key '%s' is missing (expected %s)", shown(state_->path).c_str(),
                printable(key).c_str(), expected);
}

tl::unexpected<Error> File::wrong_value(std::string_view key, const std::string& expected,
                                        const Value& found) const {
    return fail(ErrorCode::Malformed, "%s: key '%s': expected %s, found %s", shown(state_->path).c_str(),
                printable(key).c_str(), expected.c_str(), describe(found).c_str());
}

Result<int64_t> File::get_int(std::string_view key, int64_t min, int64_t max) const {
    TSR_TRY(const Value* value, require(key, "an integer"));
    const auto number = value->as_int();
    if (number && *number >= min && *number <= max) return *number;
    return wrong_value(key, describe_range(min, max), *value);
}

Result<double> File::get_float(std::string_view key) const {
    TSR_TRY(const Value* value, require(key, "a number"));
    const auto number = value->as_float();
    if (number && std::isfinite(*number)) return *number;
    return wrong_value(key, number ? "a finite number" : "a number", *value);
}

Result<bool> File::get_bool(std::string_view key) const {
    TSR_TRY(const Value* value, require(key, "a bool"));
    if (const auto truth = value->as_bool()) return *truth;
    return wrong_value(key, "a bool", *value);
}

Result<std::string_view> File::get_string(std::string_view key) const {
    TSR_TRY(const Value* value, require(key, "a string"));
    if (const auto text = value->as_string()) return *text;
    return wrong_value(key, "a string", *value);
}

Result<Value> File::get_array(std::string_view key, ValueType element) const {
    const std::string expected = strf("an array of %s", value_type_name(element));
    TSR_TRY(const Value* value, require(key, expected.c_str()));
    if (value->is_array() && value->element_type() == element) return *value;
    return wrong_value(key, expected, *value);
}

Result<int64_t> File::get_int_or(std::string_view key, int64_t fallback, int64_t min, int64_t max) const {
    return find(key) ? get_int(key, min, max) : fallback;
}

Result<double> File::get_float_or(std::string_view key, double fallback) const {
    return find(key) ? get_float(key) : fallback;
}

Result<bool> File::get_bool_or(std::string_view key, bool fallback) const {
    return find(key) ? get_bool(key) : fallback;
}

Result<std::string_view> File::get_string_or(std::string_view key, std::string_view fallback) const {
    return find(key) ? get_string(key) : fallback;
}

}  // namespace tessera::gguf
