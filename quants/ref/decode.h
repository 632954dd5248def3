#pragma once
// The reference decoders: one block of each type to f32, exactly as its formula in quants/blocks.h says.
// Written for clarity; the fast code in quants/kernels is tested against them.
#include <bit>

#include "common/f16.h"
#include "quants/blocks.h"

namespace tessera::quants {

/// A half-precision field of a block.
inline float f16_field(const uint8_t* bytes) { return f16_to_f32(static_cast<uint16_t>(load_u16(bytes))); }

/// decode(block, x): writes the block's kWeights weights to x. Never fails: every bit pattern is a value;
/// scales that are infinite or NaN give infinities and NaNs.
#define TSR_DECODE_Weight(Name) void decode(const Block##Name& b, float* x);
#define TSR_DECODE_Data(Name)
#define TSR_TYPE(Name, id, name, block, bytes, role) TSR_DECODE_##role(Name)
#include "quants/types.def"
#undef TSR_TYPE
#undef TSR_DECODE_Data
#undef TSR_DECODE_Weight

// One weight a block: inline, so that a row of them is one loop.
inline void decode(const BlockF32& b, float* x) { *x = std::bit_cast<float>(load_u32(b.bits)); }
inline void decode(const BlockF16& b, float* x) { *x = f16_field(b.bits); }
inline void decode(const BlockBF16& b, float* x) {
    *x = bf16_to_f32(static_cast<uint16_t>(load_u16(b.bits)));
}

}  // namespace tessera::quants
