// The limit of AVX-VNNI; the rest and how it works: quants/arch/avx2/probe.cpp.
#include "quants/arch/avxvnni/probe.h"

#include <immintrin.h>

#include "quants/kernels/inline.h"

namespace tessera::kernels::avxvnni {

void int8_chain(int64_t n_rounds) {
    constexpr int kChains = kInt8MacsPerRound / 32;  // 5 cycles of latency times 2 a cycle, and 2 to spare
    __m256i acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = _mm256_setzero_si256();
    const __m256i x = _mm256_set1_epi8(3);
    __m256i w = _mm256_set1_epi8(5);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            __asm__ volatile("" : "+x"(w));
            acc[i] = _mm256_dpbusd_avx_epi32(acc[i], w, x);
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+x"(acc[i]));
}

}  // namespace tessera::kernels::avxvnni
