// The encoders' entry points, for the instruction set that the including unit is compiled for:
// TSR_ENCODE_SET names the namespace that encode.h declares them in.
#include "quants/encode/encoders.h"
#include "quants/encode/grid.inl"

namespace tessera::quants {
namespace {

/// Blocks with scales of their own, eight at a time.
template <class Block, class EncodeEight>
TSR_INLINE void encode_blocks(const float* src, const float* importance, void* dst, int64_t n,
                              EncodeEight encode_eight) {
    Block* out = static_cast<Block*>(dst);
    const int64_t blocks = n / Block::kWeights;
    for (int64_t i = 0; i < blocks; i += kLanes) {
        const int count = blocks - i < kLanes ? static_cast<int>(blocks - i) : kLanes;
        const int64_t at = i * Block::kWeights;
        encode_eight(src + at, importance ? importance + at : nullptr, out + i, count);
    }
}

template <class Kind, class Block>
void encode_supers(const float* src, const float* importance, void* dst, int64_t n) {
    Block* out = static_cast<Block*>(dst);
    for (int64_t i = 0; i < n / kSuper; i++)
        Kind::encode(src + i * kSuper, importance ? importance + i * kSuper : nullptr, out[i]);
}

// One function a kind; `Block* out` receives eight blocks at a time.
#define TSR_ENCODE_EIGHT(Name, call)                    \
    encode_blocks<Block##Name>(src, importance, dst, n, \
                               [](const float* x, const float* w, Block##Name* out, int count) { call; })
#define TSR_ENCODE_Scaled(Name) TSR_ENCODE_EIGHT(Name, encode_scaled<Format##Name>(x, w, out, count))
#define TSR_ENCODE_Lined(Name) TSR_ENCODE_EIGHT(Name, encode_lined<Format##Name>(x, w, out, count))
#define TSR_ENCODE_Power(Name) TSR_ENCODE_EIGHT(Name, encode_powers(x, w, out, count))
#define TSR_ENCODE_ScaledSuper(Name) \
    encode_supers<ScaledSuper<Format##Name>, Block##Name>(src, importance, dst, n)
#define TSR_ENCODE_LinedSuper(Name) \
    encode_supers<LinedSuper<Format##Name>, Block##Name>(src, importance, dst, n)
#define TSR_ENCODE_Grid(Name) encode_supers<GridSuper<Format##Name>, Block##Name>(src, importance, dst, n)

}  // namespace

namespace TSR_ENCODE_SET {

#define TSR_ENCODER(Name, name, Kind)                                                     \
    void encode_##name(const float* src, const float* importance, void* dst, int64_t n) { \
        TSR_ENCODE_##Kind(Name);                                                          \
    }
#include "quants/encode/encoders.def"
#undef TSR_ENCODER

}  // namespace TSR_ENCODE_SET
}  // namespace tessera::quants
