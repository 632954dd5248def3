// Keys, type ids and sizes of the packed container, as pure functions. quants/pack defines the order of bytes
// within a group; src/model/packed_file.cpp converts files.
#include "ggml-like/gguf/packed.h"

#include <cinttypes>

#include "common/strings.h"
#include "ggml-like/gguf/format.h"
#include "quants/kernels/packed.h"

namespace tessera::gguf {

namespace {

constexpr uint32_t kFirstId = 0x54530000, kLastId = 0x5453ffff;
constexpr uint32_t kLayoutId = 1;  // P8x4, the only one so far

tl::unexpected<Error> other_version(const std::string& found) {
    return fail(ErrorCode::Unsupported,
                "packed by another version of tessera: expected layout %s version %" PRIu32
                ", found %s; unpack it with that version or pack the stock file again",
                std::string(kPackedLayout).c_str(), kPackedVersion, found.c_str());
}

tl::unexpected<Error> wrong_key(std::string_view key, const char* expected, const std::string& found) {
    return fail(ErrorCode::Malformed, "key '%s': expected %s, found %s", std::string(key).c_str(), expected,
                found.c_str());
}

}  // namespace

bool is_packed_key(std::string_view key) {
    return key == kPackedVersionKey || key == kPackedLayoutKey || key == kPackedAlignmentKey;
}

Result<void> check_packed_keys(const std::optional<Value>& version, const std::optional<Value>& layout,
                               const std::optional<Value>& alignment) {
    if (!version && !layout && !alignment) return {};
    const auto number = version && version->type() == ValueType::U32 ? version->as_int() : std::nullopt;
    if (!number) return wrong_key(kPackedVersionKey, "a u32", version ? describe(*version) : "none");
    const auto name = layout ? layout->as_string() : std::nullopt;
    if (!name) return wrong_key(kPackedLayoutKey, "a string", layout ? describe(*layout) : "none");
    if (*number != kPackedVersion || *name != kPackedLayout) {
        return other_version(strf("layout %s version %" PRId64, printable(*name).c_str(), *number));
    }
    if (!alignment) return {};
    const auto stock = alignment->as_int();
    if (alignment->type() == ValueType::U32 && is_valid_alignment(static_cast<uint64_t>(*stock))) return {};
    return wrong_key(kPackedAlignmentKey, "u32, a power of two up to 1048576", describe(*alignment));
}

bool has_packed_layout(Type type) {
    switch (type) {
#define TSR_P8(Name, name) case Type::Name:
#include "quants/pack/types.inc"
#undef TSR_P8
#define TSR_P8_FLOAT(Name, name) case Type::Name:
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT
        return true;
        default:
            return false;
    }
}

bool is_packed_type_id(uint32_t id) { return id >= kFirstId && id <= kLastId; }

uint32_t stored_type_id(StoredType stored) {
    const auto base = static_cast<uint32_t>(stored.type);
    return stored.layout == Layout::Packed ? kFirstId | kLayoutId << 8 | base : base;
}

Result<StoredType> stored_type_from_id(uint32_t id) {
    if (!is_packed_type_id(id)) {
        TSR_TRY(const Type type, type_from_id(id));
        return StoredType{type, Layout::Rows};
    }
    if (const uint32_t layout = (id - kFirstId) >> 8; layout != kLayoutId) {
        return other_version(strf("layout number %" PRIu32 " in type id 0x%08" PRIx32, layout, id));
    }
    const auto type = type_from_id(id & 0xff);
    if (type && has_packed_layout(*type)) return StoredType{*type, Layout::Packed};
    return fail(ErrorCode::Malformed,
                "type id 0x%08" PRIx32
                ": expected a type that has the layout %s, found %s: the file is damaged",
                id, std::string(kPackedLayout).c_str(),
                type ? std::string(type_info(*type).name).c_str() : type.error().message.c_str());
}

std::string stored_name(StoredType stored) {
    std::string name(type_info(stored.type).name);
    if (stored.layout == Layout::Packed) (name += ' ') += kPackedLayout;
    return name;
}

Result<uint64_t> stored_bytes(std::string_view name, std::span<const int64_t> shape, StoredType stored) {
    TSR_TRY(const uint64_t n_bytes, tensor_bytes(name, shape, stored.type));
    if (stored.layout == Layout::Rows) return n_bytes;
    if (shape.size() != 2 && shape.size() != 3) {
        return fail(ErrorCode::Malformed,
                    "tensor '%s' (%s): expected 2 or 3 dimensions of a packed tensor, found %s",
                    printable(name).c_str(), stored_name(stored).c_str(), shape_string(shape).c_str());
    }
    // Neither a matrix nor their number reaches 2^63, as n_bytes shows, but with the padding they might.
    const int64_t n_out = shape[shape.size() - 2];
    const uint64_t n_matrices = shape.size() == 3 ? static_cast<uint64_t>(shape[0]) : 1;
    const auto row_bytes = static_cast<uint64_t>(type_info(stored.type).row_bytes(shape.back()));
    uint64_t total = 0;
    bool overflow = __builtin_mul_overflow(align_up(static_cast<uint64_t>(n_out), kernels::kGroupRows),
                                           row_bytes, &total);
    overflow |= total > INT64_MAX - kPackedAlignment;
    overflow |= __builtin_mul_overflow(align_up(total, kPackedAlignment), n_matrices, &total);
    if (!overflow && total <= INT64_MAX) return total;
    return fail(ErrorCode::Malformed, "tensor '%s' (%s %s): its size does not fit 63 bits",
                printable(name).c_str(), stored_name(stored).c_str(), shape_string(shape).c_str());
}

}  // namespace tessera::gguf
