#pragma once
// Scalar conversions of the small float formats: IEEE half, bfloat16, E8M0 (the exponent byte of MX formats).
// They are the reference for the vector code of every ISA, which gives the same bits.
#include <bit>
#include <cstdint>

namespace tessera {

/// Exact; subnormals kept, NaN payload shifted up and made quiet.
inline float f16_to_f32(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16;
    const uint32_t exponent = (h >> 10) & 31u;
    uint32_t mantissa = h & 0x3ffu;
    if (exponent == 31)
        return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13) | (mantissa ? 0x400000u : 0u));
    if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
}

/// Round to nearest even; overflow to infinity; NaN stays a quiet NaN with its top payload bits.
uint16_t f32_to_f16(float f);

inline float bf16_to_f32(uint16_t h) { return std::bit_cast<float>(static_cast<uint32_t>(h) << 16); }

/// Round to nearest even; NaN keeps its sign and becomes quiet.
inline uint16_t f32_to_bf16(float f) {
    const uint32_t u = std::bit_cast<uint32_t>(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 64u);
    return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/// 2^(e-127) / 2: half the E8M0 scale, because MXFP4's value table is stored doubled. e = 255 is an ordinary
/// exponent (2^127), as in other implementations.
inline float e8m0_half_to_f32(uint8_t e) {
    return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<uint32_t>(e - 1) << 23);
}

}  // namespace tessera
