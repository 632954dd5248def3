// Validation of one GGUF file's bytes. Nothing in the file is trusted: every length is compared with the rest
// of the file before it is used, and memory is allocated only for records that the first pass has seen.
// file.cpp joins splits and applies overrides.
#include "ggml-like/gguf/parser.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <limits>
#include <numeric>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "ggml-like/gguf/packed.h"

namespace tessera::gguf {

namespace {

// The minimum size of a record, which bounds the counts in a header.
constexpr uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;  // length, name, type, value
constexpr uint64_t kMinTensorBytes =
    8 + 1 + 4 + 8 + 4 + 8;  // length, name, n_dims, one dimension, type, offset

struct OtherFormat {
    std::string_view start;
    const char* what;
};

/// Files that are often mistaken for GGUF files.
constexpr OtherFormat kOtherFormats[] = {
    {"FUGG", "a big-endian GGUF file; only little-endian files are supported, convert the model again"},
    {"lmgg", "a GGML file of 2023 (magic 'ggml'), which GGUF replaced; convert the original model again"},
    {"fmgg", "a GGML file of 2023 (magic 'ggmf'), which GGUF replaced; convert the original model again"},
    {"tjgg", "a GGML file of 2023 (magic 'ggjt'), which GGUF replaced; convert the original model again"},
    {"algg", "a GGML LoRA adapter of 2023 (magic 'ggla'), which GGUF replaced; convert it again"},
    {"PK\x03\x04", "a zip archive, such as PyTorch writes; convert the model first"},
    {"version https://git-lfs", "a Git LFS pointer, not the model itself; fetch it with `git lfs pull`"},
    {"<", "a web page or XML text; the download was probably answered by an error page"},
};

std::string quoted(std::string_view name) { return "'" + printable(name) + "'"; }

Result<void> check_magic(std::span<const std::byte> bytes) {
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with(kMagic)) return {};
    for (const OtherFormat& other : kOtherFormats) {
        if (text.starts_with(other.start)) {
            return fail(ErrorCode::Unsupported, "not a little-endian GGUF file: this is %s", other.what);
        }
    }
    if (kMagic.starts_with(text)) {
        return fail(ErrorCode::Malformed, "truncated: the file has %zu bytes, a GGUF header takes %" PRIu64,
                    bytes.size(), kHeaderBytes);
    }
    return fail(ErrorCode::Malformed, "not a GGUF file: expected the magic 'GGUF', found '%s'",
                printable(text.substr(0, kMagic.size())).c_str());
}

Result<void> check_version(uint32_t version) {
    if (version == 2 || version == 3) return {};
    if ((version & 0xffffu) == 0 && version != 0) {
        return fail(ErrorCode::Unsupported,
                    "GGUF version reads as 0x%08" PRIx32 ", which is version %" PRIu32
                    " of a big-endian file; only little-endian files are supported, convert the model again",
                    version, __builtin_bswap32(version));
    }
    if (version == 1) {
        return fail(
            ErrorCode::Unsupported,
            "GGUF version 1 is not supported (expected 2 or 3): it was in use for a few days of 2023; "
            "convert the original model again");
    }
    const char* hint = version > 3 ? ": this file was made for a newer reader" : "";
    return fail(ErrorCode::Unsupported, "GGUF version %" PRIu32 " is not supported (expected 2 or 3)%s",
                version, hint);
}

Result<void> check_count(const char* what, uint64_t count, uint64_t record_bytes, uint64_t bytes_left) {
    const uint64_t most = std::min(bytes_left / record_bytes, NameIndex::kMaxNames);
    if (count <= most) return {};
    return fail(ErrorCode::Malformed,
                "the header claims %" PRIu64 " %s, but the %" PRIu64 " bytes after it hold at most %" PRIu64
                ": truncated or corrupt file",
                count, what, bytes_left, most);
}

Result<void> check_bools(std::string_view key, std::string_view values) {
    const auto wrong = std::find_if(values.begin(), values.end(), [](char c) { return c != 0 && c != 1; });
    if (wrong == values.end()) return {};
    return fail(ErrorCode::Malformed, "key %s: expected a bool to be 0 or 1, found %u", quoted(key).c_str(),
                static_cast<unsigned>(static_cast<unsigned char>(*wrong)));
}

/// Tensors of one file, in any order with any gaps, must not share bytes.
Result<void> check_overlap(std::span<const TensorInfo> tensors) {
    const auto end = [](const TensorInfo& t) { return t.data.data() + t.data.size(); };
    bool in_order = true;
    for (size_t i = 1; i < tensors.size() && in_order; i++) {
        in_order = end(tensors[i - 1]) <= tensors[i].data.data();
    }
    if (in_order) return {};

    std::vector<uint32_t> order(tensors.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return tensors[a].data.data() < tensors[b].data.data(); });
    for (size_t i = 1; i < order.size(); i++) {
        const TensorInfo& before = tensors[order[i - 1]];
        const TensorInfo& after = tensors[order[i]];
        if (end(before) > after.data.data()) {
            return fail(ErrorCode::Malformed, "tensors %s and %s overlap by %td bytes",
                        quoted(before.name).c_str(), quoted(after.name).c_str(),
                        end(before) - after.data.data());
        }
    }
    return {};
}

}  // namespace

const Value* Metadata::find(std::string_view key) const {
    const uint32_t at = index.find(key, [this](uint32_t i) { return key_at(i); });
    return at == NameIndex::kNone ? nullptr : &keys[at].value;
}

tl::unexpected<Error> Parser::truncated(const std::string& where) const {
    return fail(ErrorCode::Malformed, "truncated: the file ends after %zu bytes, inside %s", bytes.size(),
                where.c_str());
}

Result<void> Parser::walk() {
    TSR_TRY_VOID(read_header());
    for (uint64_t i = 0; i < n_keys; i++) {
        TSR_TRY(const KeyValue kv, read_key(i, nullptr));
        TSR_TRY_VOID(note_container_key(kv));
    }
    TSR_TRY_VOID(check_packed_keys(packed_version, packed_layout, packed_alignment));
    keys_end = in.pos();
    for (uint64_t i = 0; i < n_tensors; i++) TSR_TRY_VOID(read_tensor(i));
    if (alignment == 0) alignment = kDefaultAlignment;
    data_start = align_up(in.pos(), alignment);
    return {};
}

Result<void> Parser::read_header() {
    TSR_TRY_VOID(check_magic(bytes));
    in.skip(kMagic.size());
    version = in.get<uint32_t>();
    if (in.ok()) TSR_TRY_VOID(check_version(version));
    n_tensors = in.get<uint64_t>();
    n_keys = in.get<uint64_t>();
    if (!in.ok()) return truncated(strf("the header, which takes %" PRIu64, kHeaderBytes));
    TSR_TRY_VOID(check_count("keys", n_keys, kMinKeyBytes, in.remaining()));
    return check_count("tensors", n_tensors, kMinTensorBytes, in.remaining() - n_keys * kMinKeyBytes);
}

/// The keys that describe the layout of the container. Of duplicates the first counts here; build_keys()
/// refuses them.
Result<void> Parser::note_container_key(const KeyValue& kv) {
    if (kv.key == kAlignmentKey && alignment == 0) {
        const auto value = kv.value.as_int();
        if (kv.value.type() != ValueType::U32 || !is_valid_alignment(static_cast<uint64_t>(*value))) {
            return fail(ErrorCode::Malformed,
                        "key 'general.alignment': expected u32, a power of two from 1 to %" PRIu32
                        ", found %s",
                        kMaxAlignment, describe(kv.value).c_str());
        }
        alignment = static_cast<uint64_t>(*value);
    }
    if (kv.key == kSplitNoKey) split_no = kv.value;
    if (kv.key == kSplitCountKey) split_count = kv.value;
    if (kv.key == kSplitTensorsKey) split_tensors = kv.value;
    if (kv.key == kPackedVersionKey) packed_version = kv.value;
    if (kv.key == kPackedLayoutKey) packed_layout = kv.value;
    if (kv.key == kPackedAlignmentKey) packed_alignment = kv.value;
    return {};
}

Result<KeyValue> Parser::read_key(uint64_t i, Metadata* keep) {
    const auto number = [&] { return strf("key number %" PRIu64 " of %" PRIu64, i + 1, n_keys); };
    const auto length = in.get<uint64_t>();
    if (!in.ok()) return truncated(number());
    if (length < 1 || length > kMaxKeyBytes) {
        return fail(ErrorCode::Malformed, "%s: expected a name of 1 to %" PRIu64 " bytes, found %" PRIu64,
                    number().c_str(), kMaxKeyBytes, length);
    }
    const std::string_view key = in.view(length);
    if (!in.ok()) return truncated("the name of " + number());
    if (!is_clean_name(key)) {
        return fail(ErrorCode::Malformed, "%s: expected a name in UTF-8 without control characters, found %s",
                    number().c_str(), quoted(key).c_str());
    }
    TSR_TRY(const Value value, read_value(key, keep));
    return KeyValue{key, value};
}

Result<Value> Parser::read_value(std::string_view key, Metadata* keep) {
    const auto type_id = in.get<uint32_t>();
    if (!in.ok()) return truncated("the type of key " + quoted(key));
    if (type_id >= kValueTypes) {
        return fail(ErrorCode::Malformed,
                    "key %s: expected a value type from 0 to %" PRIu32 ", found %" PRIu32,
                    quoted(key).c_str(), kValueTypes - 1, type_id);
    }
    Value value;
    value.type_ = static_cast<ValueType>(type_id);
    if (value.is_array()) return read_array(key, keep);

    if (value.type_ == ValueType::String) value.count_ = in.get<uint64_t>();
    const uint64_t n_bytes = value.type_ == ValueType::String ? value.count_ : value_bytes(value.type_);
    const std::string_view raw = in.view(n_bytes);
    if (!in.ok()) {
        return truncated(strf("the %s of key %s, which takes %" PRIu64, value_type_name(value.type_),
                              quoted(key).c_str(), n_bytes));
    }
    if (value.type_ == ValueType::Bool) TSR_TRY_VOID(check_bools(key, raw));
    value.data_ = raw.data();
    return value;
}

Result<Value> Parser::read_array(std::string_view key, Metadata* keep) {
    const auto type_id = in.get<uint32_t>();
    const auto count = in.get<uint64_t>();
    if (!in.ok()) return truncated("the array of key " + quoted(key));
    if (type_id == static_cast<uint32_t>(ValueType::Array)) {
        return fail(ErrorCode::Unsupported, "key %s: an array of arrays is not supported",
                    quoted(key).c_str());
    }
    if (type_id >= kValueTypes) {
        return fail(ErrorCode::Malformed,
                    "key %s: expected an element type from 0 to %" PRIu32 ", found %" PRIu32,
                    quoted(key).c_str(), kValueTypes - 1, type_id);
    }
    const auto element = static_cast<ValueType>(type_id);
    const uint64_t element_bytes = element == ValueType::String ? sizeof(uint64_t) : value_bytes(element);
    if (count > in.remaining() / element_bytes) {
        return fail(ErrorCode::Malformed,
                    "key %s: truncated: an array of %" PRIu64
                    " %s does not fit the %zu bytes left in the file",
                    quoted(key).c_str(), count, value_type_name(element), in.remaining());
    }
    if (element == ValueType::String) return read_strings(key, count, keep);

    Value value;
    value.type_ = ValueType::Array;
    value.element_ = element;
    value.count_ = count;
    const std::string_view raw = in.view(count * element_bytes);
    if (element == ValueType::Bool) TSR_TRY_VOID(check_bools(key, raw));
    value.data_ = raw.data();
    return value;
}

Result<Value> Parser::read_strings(std::string_view key, uint64_t count, Metadata* keep) {
    std::unique_ptr<const std::byte*[]> index;
    if (keep) index = std::make_unique<const std::byte*[]>(count);
    for (uint64_t i = 0; i < count; i++) {
        if (keep) index[i] = bytes.data() + in.pos();
        in.skip(in.get<uint64_t>());
        if (!in.ok()) {
            return truncated(
                strf("string %" PRIu64 " of %" PRIu64 " of key %s", i + 1, count, quoted(key).c_str()));
        }
    }
    Value value;
    value.type_ = ValueType::Array;
    value.element_ = ValueType::String;
    value.count_ = count;
    value.data_ = index.get();
    if (keep) keep->string_arrays.push_back(std::move(index));
    return value;
}

Result<Parser::TensorRecord> Parser::read_tensor(uint64_t i) {
    const auto number = [&] { return strf("tensor number %" PRIu64 " of %" PRIu64, i + 1, n_tensors); };
    TensorRecord record{};
    const auto length = in.get<uint64_t>();
    if (!in.ok()) return truncated(number());
    if (length < 1 || length > kMaxTensorNameBytes) {
        return fail(ErrorCode::Malformed, "%s: expected a name of 1 to %" PRIu64 " bytes, found %" PRIu64,
                    number().c_str(), kMaxTensorNameBytes, length);
    }
    record.name = in.view(length);
    if (!in.ok()) return truncated("the name of " + number());
    if (!is_clean_name(record.name)) {
        return fail(ErrorCode::Malformed, "%s: expected a name in UTF-8 without control characters, found %s",
                    number().c_str(), quoted(record.name).c_str());
    }
    record.n_dims = in.get<uint32_t>();
    if (in.ok() && (record.n_dims < 1 || record.n_dims > kMaxDims)) {
        return fail(ErrorCode::Malformed, "tensor %s: expected 1 to %d dimensions, found %" PRIu32,
                    quoted(record.name).c_str(), kMaxDims, record.n_dims);
    }
    for (uint32_t d = 0; d < record.n_dims && in.ok(); d++) record.dims[d] = in.get<uint64_t>();
    record.type_id = in.get<uint32_t>();
    record.offset = in.get<uint64_t>();
    if (!in.ok()) return truncated("the record of tensor " + quoted(record.name));
    return record;
}

Result<Metadata> Parser::build_keys(size_t n_extra) {
    Metadata metadata;
    metadata.keys.reserve(n_keys + n_extra);
    metadata.index = NameIndex(n_keys + n_extra);
    in.seek(kHeaderBytes);
    for (uint64_t i = 0; i < n_keys; i++) {
        TSR_TRY(const KeyValue kv, read_key(i, &metadata));
        metadata.keys.push_back(kv);
        const uint32_t before = metadata.index.insert(kv.key, static_cast<uint32_t>(i),
                                                      [&](uint32_t at) { return metadata.key_at(at); });
        if (before != NameIndex::kNone) {
            return fail(ErrorCode::Malformed,
                        "key %s occurs twice, as number %" PRIu32 " and number %" PRIu64 " of %" PRIu64,
                        quoted(kv.key).c_str(), before + 1, i + 1, n_keys);
        }
    }
    return metadata;
}

/// Requirements of a packed tensor on its file.
Result<void> Parser::check_packed_tensor(const TensorRecord& record) const {
    if (!packed_version) {
        return fail(ErrorCode::Malformed,
                    "tensor %s has the packed type id 0x%08" PRIx32 ", but key '%s' is missing",
                    quoted(record.name).c_str(), record.type_id, std::string(kPackedVersionKey).c_str());
    }
    if (alignment % kPackedAlignment == 0) return {};
    return fail(ErrorCode::Malformed,
                "tensor %s is packed: expected key 'general.alignment' to be a multiple of %" PRIu32
                ", found %" PRIu64,
                quoted(record.name).c_str(), kPackedAlignment, alignment);
}

Result<TensorInfo> Parser::check_tensor(const TensorRecord& record, int file_index) const {
    TensorInfo info{};
    info.name = record.name;
    info.n_dims = static_cast<int>(record.n_dims);
    info.file_index = file_index;
    for (uint32_t d = 0; d < record.n_dims; d++) {
        if (record.dims[d] > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
            return fail(ErrorCode::Malformed, "tensor %s: expected a dimension below 2^63, found %" PRIu64,
                        quoted(record.name).c_str(), record.dims[d]);
        }
        info.shape[record.n_dims - 1 - d] = static_cast<int64_t>(record.dims[d]);
    }
    auto stored = stored_type_from_id(record.type_id);
    if (!stored) return fail_in("tensor " + quoted(record.name), std::move(stored.error()));
    info.type = stored->type;
    info.layout = stored->layout;
    TSR_TRY(const uint64_t n_bytes, stored_bytes(info.name, {info.shape, record.n_dims}, *stored));
    if (info.layout == Layout::Packed) TSR_TRY_VOID(check_packed_tensor(record));
    if (record.offset % alignment != 0) {
        return fail(ErrorCode::Malformed,
                    "tensor %s: expected an offset that is a multiple of the alignment %" PRIu64
                    ", found %" PRIu64,
                    quoted(record.name).c_str(), alignment, record.offset);
    }
    const uint64_t data_bytes = bytes.size() - std::min<uint64_t>(data_start, bytes.size());
    if (record.offset > data_bytes || n_bytes > data_bytes - record.offset) {
        return fail(ErrorCode::Malformed,
                    "tensor %s (%s %s): expected %" PRIu64 " bytes at offset %" PRIu64
                    " of the tensor data, but the file has %" PRIu64
                    " bytes of tensor data: truncated or corrupt file",
                    quoted(record.name).c_str(), stored_name(*stored).c_str(), info.shape_string().c_str(),
                    n_bytes, record.offset, data_bytes);
    }
    info.data = bytes.subspan(data_start + record.offset, n_bytes);
    return info;
}

Result<void> Parser::append_tensors(std::vector<TensorInfo>& tensors, int file_index) {
    const size_t first = tensors.size();
    in.seek(keys_end);
    for (uint64_t i = 0; i < n_tensors; i++) {
        TSR_TRY(const TensorRecord record, read_tensor(i));
        TSR_TRY(const TensorInfo info, check_tensor(record, file_index));
        tensors.push_back(info);
    }
    return check_overlap(std::span<const TensorInfo>(tensors).subspan(first));
}

}  // namespace tessera::gguf
