#pragma once
// One-pass encoders: f32 to one block of a type. A type has one exactly if encode() is declared here for its
// block, which is how the registry finds it. Encoders with a search: encoders.def.
#include <bit>

#include "common/f16.h"
#include "quants/blocks.h"

namespace tessera::quants {

// encode(x, block): x [kWeights]. Never fails. A quantized block with an infinite or NaN weight decodes to
// NaNs, so that damage stays visible; values beyond the format's range saturate.

// The plain floats convert each number by itself, to nearest even, and keep infinities and NaNs.
inline void encode(const float* x, BlockF32& b) { store_u32(std::bit_cast<uint32_t>(*x), b.bits); }
inline void encode(const float* x, BlockF16& b) { store_u16(f32_to_f16(*x), b.bits); }
inline void encode(const float* x, BlockBF16& b) { store_u16(f32_to_bf16(*x), b.bits); }

/// See q8_0.cpp and q4_0.cpp for the choice of scale.
void encode(const float* x, BlockQ8_0& b);
void encode(const float* x, BlockQ4_0& b);

constexpr float kMaxHalf = 65504.0f;
constexpr uint16_t kHalfNan = 0x7e00;

}  // namespace tessera::quants
