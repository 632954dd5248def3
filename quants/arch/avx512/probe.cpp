// The limits of AVX-512; the rest and how it works: quants/arch/avx2/probe.cpp.
#include "quants/arch/avx512/probe.h"

#include <immintrin.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels::avx512 {

void int8_chain(int64_t n_rounds) {
    constexpr int kChains = kInt8MacsPerRound / 64;
    __m512i acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = _mm512_setzero_si512();
    const __m512i x = _mm512_set1_epi8(3);
    __m512i w = _mm512_set1_epi8(5);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            __asm__ volatile("" : "+v"(w));
            acc[i] = _mm512_dpbusd_epi32(acc[i], w, x);
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+v"(acc[i]));
}

void fma_chain(int64_t n_rounds) {
    constexpr int kChains = kFmaMacsPerRound / 16;
    __m512 acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = _mm512_setzero_ps();
    const __m512 w = _mm512_set1_ps(1.5f), x = _mm512_set1_ps(0.5f);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            acc[i] = _mm512_fmadd_ps(w, x, acc[i]);
            __asm__ volatile("" : "+v"(acc[i]));
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+v"(acc[i]));
}

}  // namespace tessera::kernels::avx512
