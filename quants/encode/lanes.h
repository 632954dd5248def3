#pragma once
// Eight floats or integers side by side, in the compiler's vector extensions: the operations of the encoders.
// A lane is a sub-block of weights, so every sum runs inside its lane, in the order of the weights, and the
// same source gives the same bits for any register width.
//
// Included by ISA units: only C headers, and everything is local to the unit.
#include <stdint.h>

#include "quants/kernels/inline.h"

namespace tessera::quants {
namespace {

constexpr int kLanes = 8;

#if defined(__AVX2__)
constexpr int kPartLanes = 8;
#else
constexpr int kPartLanes = 4;
#endif
constexpr int kParts = kLanes / kPartLanes;

using FltPart [[gnu::vector_size(4 * kPartLanes)]] = float;
using IntPart [[gnu::vector_size(4 * kPartLanes)]] = int32_t;

struct Flt {
    FltPart part[kParts];
};
/// Integers, or the mask of a comparison: all bits set where it holds.
struct Int {
    IntPart part[kParts];
};

#define TSR_LANES_BINARY(Type, Result, name, expression)   \
    TSR_INLINE Result name(const Type& a, const Type& b) { \
        Result r;                                          \
        TSR_UNROLL                                         \
        for (int i = 0; i < kParts; i++) {                 \
            const auto &u = a.part[i], &v = b.part[i];     \
            r.part[i] = expression;                        \
        }                                                  \
        return r;                                          \
    }

TSR_LANES_BINARY(Flt, Flt, operator+, u + v)
TSR_LANES_BINARY(Flt, Flt, operator-, u - v)
TSR_LANES_BINARY(Flt, Flt, operator*, u* v)
TSR_LANES_BINARY(Flt, Flt, operator/, u / v)
TSR_LANES_BINARY(Flt, Flt, max, u > v ? u : v)
TSR_LANES_BINARY(Flt, Flt, min, u < v ? u : v)
TSR_LANES_BINARY(Flt, Int, operator>, u > v)
TSR_LANES_BINARY(Flt, Int, operator<, u < v)
TSR_LANES_BINARY(Int, Int, operator==, u == v)
TSR_LANES_BINARY(Int, Int, operator-, u - v)
TSR_LANES_BINARY(Int, Int, operator+, u + v)
TSR_LANES_BINARY(Int, Int, operator&, u& v)
#undef TSR_LANES_BINARY

TSR_INLINE Flt all(float value) {
    Flt r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++) r.part[i] = FltPart{} + value;
    return r;
}

TSR_INLINE Int all_int(int32_t value) {
    Int r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++) r.part[i] = IntPart{} + value;
    return r;
}

/// a where the mask is set, b elsewhere.
TSR_INLINE Flt select(const Int& mask, const Flt& a, const Flt& b) {
    Flt r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++) r.part[i] = mask.part[i] ? a.part[i] : b.part[i];
    return r;
}

TSR_INLINE Int select(const Int& mask, const Int& a, const Int& b) {
    Int r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++) r.part[i] = mask.part[i] ? a.part[i] : b.part[i];
    return r;
}

/// a where the mask is set, +0 elsewhere.
TSR_INLINE Flt keep(const Int& mask, const Flt& a) {
    Flt r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++)
        r.part[i] = reinterpret_cast<FltPart>(mask.part[i] & reinterpret_cast<IntPart>(a.part[i]));
    return r;
}

TSR_INLINE Flt magnitude(const Flt& a) {
    Flt r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++)
        r.part[i] = reinterpret_cast<FltPart>(reinterpret_cast<IntPart>(a.part[i]) & 0x7fffffff);
    return r;
}

/// The magnitude of a with the sign of b; a >= 0.
TSR_INLINE Flt with_sign(const Flt& a, const Flt& b) {
    Flt r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++)
        r.part[i] = reinterpret_cast<FltPart>(reinterpret_cast<IntPart>(a.part[i]) |
                                              (reinterpret_cast<IntPart>(b.part[i]) & INT32_MIN));
    return r;
}

TSR_INLINE FltPart root(FltPart v) {
    FltPart r;
    for (int i = 0; i < kPartLanes; i++) r[i] = __builtin_sqrtf(v[i]);
    return r;
}

/// To the nearest integer, ties to even; |a| <= 2^22.
TSR_INLINE Flt nearest_integer(const Flt& a) {
    const Flt magic = all(0x1.8p23f);
    return (a + magic) - magic;
}

/// Of integral values.
TSR_INLINE Int to_int(const Flt& a) {
    Int r;
    TSR_UNROLL
    for (int i = 0; i < kParts; i++) r.part[i] = __builtin_convertvector(a.part[i], IntPart);
    return r;
}

/// a / b, and 0 where b is 0.
TSR_INLINE Flt quotient(const Flt& a, const Flt& b) {
    const Int some = magnitude(b) > all(0.0f);
    return keep(some, a / select(some, b, all(1.0f)));
}

TSR_INLINE Flt load(const float* p) {
    Flt r;
    __builtin_memcpy(&r, p, sizeof r);
    return r;
}

TSR_INLINE void store(float* p, const Flt& a) { __builtin_memcpy(p, &a, sizeof a); }
TSR_INLINE void store(int32_t* p, const Int& a) { __builtin_memcpy(p, &a, sizeof a); }

/// The sum of the lanes, first to last.
TSR_INLINE float sum_lanes(const Flt& a) {
    float lanes[kLanes], sum = 0;
    store(lanes, a);
    for (const float lane : lanes) sum += lane;
    return sum;
}

/// The lane of largest magnitude (the first of equals), with its sign.
TSR_INLINE float extreme_lane(const Flt& a) {
    float lanes[kLanes], extreme = 0;
    store(lanes, a);
    for (const float lane : lanes)
        if (__builtin_fabsf(lane) > __builtin_fabsf(extreme)) extreme = lane;
    return extreme;
}

// ---- halves, without the std headers of common/f16.h

constexpr float kMaxHalf = 65504.0f;
constexpr uint16_t kHalfNan = 0x7e00;

/// To nearest even; values beyond the largest half become it. No NaNs.
inline uint16_t half_bits(float v) {
    const uint32_t sign = (__builtin_bit_cast(uint32_t, v) >> 16) & 0x8000u;
    float a = __builtin_fabsf(v);
    if (a > kMaxHalf) a = kMaxHalf;
    if (a < 0x1p-14f)  // adding 1/2 rounds to a multiple of 2^-24
        return static_cast<uint16_t>(
            sign | (__builtin_bit_cast(uint32_t, a + 0.5f) - __builtin_bit_cast(uint32_t, 0.5f)));
    uint32_t u = __builtin_bit_cast(uint32_t, a);
    u += 0xfffu + ((u >> 13) & 1u);
    return static_cast<uint16_t>(sign | ((u >> 13) - (112u << 10)));
}

/// Finite halves only.
inline float half_value(uint16_t h) {
    const uint32_t bits =
        (static_cast<uint32_t>(h & 0x8000u) << 16) | (static_cast<uint32_t>(h & 0x7fffu) << 13);
    return __builtin_bit_cast(float, bits) * 0x1p112f;
}

}  // namespace
}  // namespace tessera::quants
