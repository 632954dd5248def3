// Decoders of the types with one scale for 32 weights, and of the two ternary types (one scale for 256).
// Bit layouts: quants/blocks.h. d * q is exact; only adding m rounds.
#include "quants/ref/decode.h"

namespace tessera::quants {

namespace {

/// x = d * (q - zero)
template <class Block>
void decode_scaled(const Block& b, int zero, float* x) {
    const float d = f16_field(b.d);
    for (int e = 0; e < Block::kWeights; e++) x[e] = d * static_cast<float>(code_at(b, e) - zero);
}

/// x = d * q + m
template <class Block>
void decode_affine(const Block& b, float* x) {
    const float d = f16_field(b.d);
    const float m = f16_field(b.m);
    for (int e = 0; e < Block::kWeights; e++) x[e] = d * static_cast<float>(code_at(b, e)) + m;
}

}  // namespace

void decode(const BlockQ4_0& b, float* x) { decode_scaled(b, 8, x); }
void decode(const BlockQ5_0& b, float* x) { decode_scaled(b, 16, x); }
void decode(const BlockQ8_0& b, float* x) { decode_scaled(b, 0, x); }
void decode(const BlockTQ1_0& b, float* x) { decode_scaled(b, 1, x); }
void decode(const BlockTQ2_0& b, float* x) { decode_scaled(b, 1, x); }

void decode(const BlockQ4_1& b, float* x) { decode_affine(b, x); }
void decode(const BlockQ5_1& b, float* x) { decode_affine(b, x); }

}  // namespace tessera::quants
