// Owns the registry: one TypeInfo for each row of types.def, found by id, by name and as a list. Assumes that
// a type has an encoder with a search exactly if encode/encoders.def lists it, and a one-pass encoder exactly
// if encode/encode.h declares encode() for its block. A one-pass encoder without the other serves as both.
// Decoders: quants/ref. Block layouts: quants/blocks.h.
#include "quants/types.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "common/strings.h"
#include "quants/encode/encode.h"
#include "quants/encode/encoders.h"
#include "quants/ref/decode.h"

namespace tessera {

namespace {

template <class Block>
void dequantize_row(const void* src, float* dst, int64_t n) {
    const Block* blocks = static_cast<const Block*>(src);
    for (int64_t i = 0; i < n / Block::kWeights; i++) quants::decode(blocks[i], dst + i * Block::kWeights);
}

template <class Block>
void store_row(const float* src, void* dst, int64_t n) {
    Block* blocks = static_cast<Block*>(dst);
    for (int64_t i = 0; i < n / Block::kWeights; i++) quants::encode(src + i * Block::kWeights, blocks[i]);
}

template <class Block>
void quantize_row(const float* src, const float*, void* dst, int64_t n) {
    store_row<Block>(src, dst, n);
}

template <class Block>
concept HasOnePass = requires(const float* x, Block& block) {
    quants::encode(x, block);
};

template <class Block>
constexpr StoreFn store_fn() {
    if constexpr (HasOnePass<Block>) {
        return store_row<Block>;
    } else {
        return nullptr;
    }
}

/// The encoder with a search, or null. (Not a comparison with null: under UndefinedBehaviorSanitizer gcc does
/// not take an address for a constant expression there.)
template <class Block>
constexpr bool kHasSearch = false;
template <class Block>
constexpr QuantizeFn kSearching = nullptr;
#define TSR_ENCODER(Name, name, Kind)                      \
    template <>                                            \
    constexpr bool kHasSearch<quants::Block##Name> = true; \
    template <>                                            \
    constexpr QuantizeFn kSearching<quants::Block##Name> = quants::baseline::encode_##name;
#include "quants/encode/encoders.def"
#undef TSR_ENCODER

template <class Block>
constexpr QuantizeFn quantize_fn() {
    if constexpr (kHasSearch<Block>) {
        return kSearching<Block>;
    } else if constexpr (HasOnePass<Block>) {
        return quantize_row<Block>;
    } else {
        return nullptr;
    }
}

#define TSR_CODEC_Weight(Name)                                                                 \
    TypeRole::Weight, dequantize_row<quants::Block##Name>, quantize_fn<quants::Block##Name>(), \
        store_fn<quants::Block##Name>()
#define TSR_CODEC_Data(Name) TypeRole::Data, nullptr, nullptr, nullptr
constexpr TypeInfo kTypes[] = {
#define TSR_TYPE(Name, id, name, block, bytes, role) {Type::Name, name, block, bytes, TSR_CODEC_##role(Name)},
#include "quants/types.def"
#undef TSR_TYPE
};
#undef TSR_CODEC_Data
#undef TSR_CODEC_Weight

constexpr uint32_t kIdEnd = [] {
    uint32_t end = 0;
    for (const TypeInfo& info : kTypes) end = std::max(end, static_cast<uint32_t>(info.type) + 1);
    return end;
}();

/// Position in kTypes of each id, -1 where the list has none.
constexpr auto kIndexOfId = [] {
    std::array<int8_t, kIdEnd> index{};
    index.fill(-1);
    for (size_t i = 0; i < std::size(kTypes); i++)
        index[static_cast<uint32_t>(kTypes[i].type)] = static_cast<int8_t>(i);
    return index;
}();

/// Ids that appear in files but are not supported, with the reason and a remedy.
struct RefusedIds {
    uint32_t first, last;
    const char* what;
    const char* hint;
};

constexpr const char* kUsePlainQ4_0 =
    "download or make the plain Q4_0 file: rows are interleaved while loading";
constexpr const char* kUsePlainIq4Nl =
    "download or make the plain IQ4_NL file: rows are interleaved while loading";
constexpr const char* kRequantize = "convert the original model again, for example to Q4_K";
constexpr const char* kActivations =
    "it is an activation format and never holds weights; the file is damaged";
constexpr const char* kStockType = "use a file of a type that tessera reads, for example Q4_K or Q8_0";
constexpr const char* kIkPrivate = "quantize the original model to a stock type, for example Q4_K";

constexpr RefusedIds kRefused[] = {
    {4, 4, "Q4_2, retired in 2023", kRequantize},
    {5, 5, "Q4_3, retired in 2023", kRequantize},
    {9, 9, "Q8_1", kActivations},
    {15, 15, "Q8_K", kActivations},
    {31, 31, "Q4_0_4_4, retired in 2024", kUsePlainQ4_0},
    {32, 32, "Q4_0_4_8, retired in 2024", kUsePlainQ4_0},
    {33, 33, "Q4_0_8_8, retired in 2024", kUsePlainQ4_0},
    {36, 36, "IQ4_NL_4_4, retired in 2024", kUsePlainIq4Nl},
    {37, 37, "IQ4_NL_4_8, retired in 2024", kUsePlainIq4Nl},
    {38, 38, "IQ4_NL_8_8, retired in 2024", kUsePlainIq4Nl},
    {40, 40, "NVFP4, not supported yet", kStockType},
    {41, 41, "Q1_0, not supported yet", kStockType},
    {42, 42, "Q2_0, not supported yet", kStockType},
    {97, 99, "a private type of ik_llama.cpp", kIkPrivate},
    {133, 399, "a private type of ik_llama.cpp", kIkPrivate},
    {0x54530000, 0x5453ffff, "a packed type of tessera, which only a packed container may hold",
     "pack the original file again"},
};

}  // namespace

std::span<const TypeInfo> all_types() { return kTypes; }

const TypeInfo& type_info(Type type) {
    const uint32_t id = static_cast<uint32_t>(type);
    TSR_CHECK(id < kIdEnd && kIndexOfId[id] >= 0);
    return kTypes[kIndexOfId[id]];
}

Result<Type> type_from_id(uint32_t id) {
    if (id < kIdEnd && kIndexOfId[id] >= 0) return static_cast<Type>(id);
    for (const RefusedIds& refused : kRefused) {
        if (id < refused.first || id > refused.last) continue;
        return fail(ErrorCode::Unsupported, "tensor type id %u is %s: %s", id, refused.what, refused.hint);
    }
    return fail(
        ErrorCode::Unsupported,
        "tensor type id %u is unknown, expected one below %u: the file is damaged or newer than this program",
        id, kIdEnd);
}

Result<Type> type_from_name(std::string_view name) {
    const std::string wanted = to_lower(name);
    std::vector<std::string_view> names;
    for (const TypeInfo& info : kTypes) {
        if (info.name == wanted) return info.type;
        names.push_back(info.name);
    }
    const std::string_view nearest = nearest_name(wanted, names);
    const std::string hint = nearest.empty() ? "expected a name such as f16, q8_0 or q4_k"
                                             : "did you mean " + std::string(nearest) + "?";
    return fail(ErrorCode::InvalidArgument, "no tensor type is called '%s': %s", printable(name).c_str(),
                hint.c_str());
}

}  // namespace tessera
