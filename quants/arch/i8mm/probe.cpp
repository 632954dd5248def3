// The limit of the 8-bit matrix instructions; the rest and how it works: quants/arch/neon/probe.cpp.
#include "quants/arch/i8mm/probe.h"

#include <arm_neon.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels::i8mm {

void int8_chain(int64_t n_rounds) {
    constexpr int kChains = kInt8MacsPerRound / 32;
    int32x4_t acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = vdupq_n_s32(0);
    const int8x16_t x = vdupq_n_s8(3);
    int8x16_t w = vdupq_n_s8(5);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            __asm__ volatile("" : "+w"(w));
            acc[i] = vmmlaq_s32(acc[i], w, x);
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+w"(acc[i]));
}

}  // namespace tessera::kernels::i8mm
