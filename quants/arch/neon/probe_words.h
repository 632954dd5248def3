#pragma once
// Links (quants/kernels/probe.inl) whose accumulators are words, shared by dotprod and i8mm.
#include <arm_neon.h>

#include "quants/kernels/probe.inl"

namespace tessera::kernels {

namespace {

struct WordLink {
    using Acc = int32x4_t;
    static constexpr int kChains = 16;
    TSR_INLINE Acc zero() { return vdupq_n_s32(0); }
    TSR_INLINE int8x16_t first() { return vdupq_n_s8(5); }
    TSR_INLINE int8x16_t second() { return vdupq_n_s8(3); }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+w"(acc)); }
};

}  // namespace

}  // namespace tessera::kernels
