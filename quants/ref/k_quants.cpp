// Decoders of the K-quants: 256 weights, an f16 scale, and integer scales (and minima) of sub-blocks.
// Bit layouts: quants/blocks.h. d * scale * q is exact; only subtracting the minimum rounds.
#include "quants/ref/decode.h"

namespace tessera::quants {

namespace {

/// x = d * scale * (q - zero)
template <class Block>
void decode_symmetric(const Block& b, int sub_block, int zero, float* x) {
    const float d = f16_field(b.d);
    for (int e = 0; e < Block::kWeights; e++) {
        const float scale = d * static_cast<float>(scale_at(b, e / sub_block));
        x[e] = scale * static_cast<float>(code_at(b, e) - zero);
    }
}

/// x = d * scale * q - dmin * min
template <class Block>
void decode_with_min(const Block& b, int sub_block, float* x) {
    const float d = f16_field(b.d);
    const float dmin = f16_field(b.dmin);
    for (int e = 0; e < Block::kWeights; e++) {
        const float scale = d * static_cast<float>(scale_at(b, e / sub_block));
        const float min = dmin * static_cast<float>(min_at(b, e / sub_block));
        x[e] = scale * static_cast<float>(code_at(b, e)) - min;
    }
}

}  // namespace

void decode(const BlockQ2_K& b, float* x) { decode_with_min(b, 16, x); }
void decode(const BlockQ3_K& b, float* x) { decode_symmetric(b, 16, 4, x); }
void decode(const BlockQ4_K& b, float* x) { decode_with_min(b, 32, x); }
void decode(const BlockQ5_K& b, float* x) { decode_with_min(b, 32, x); }
void decode(const BlockQ6_K& b, float* x) { decode_symmetric(b, 16, 32, x); }

}  // namespace tessera::quants
