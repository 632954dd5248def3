// The rooflines of AVX-VNNI, which are those of AVX2 except for products of bytes. Method:
// quants/arch/avx2/probe.cpp.
#include <immintrin.h>

#include "quants/arch/avx2/probe.h"
#include "quants/kernels/probe.inl"

namespace tessera::kernels {

namespace {

struct DotLink {
    using Acc = __m256i;
    static constexpr int kChains = 12, kMacs = 32;  // 5 cycles of latency times 2 a cycle, and 2 to spare
    TSR_INLINE Acc zero() { return _mm256_setzero_si256(); }
    TSR_INLINE __m256i first() { return _mm256_set1_epi8(5); }
    TSR_INLINE __m256i second() { return _mm256_set1_epi8(3); }
    TSR_INLINE void step(Acc& acc, __m256i& w, __m256i x) {
        __asm__ volatile("" : "+x"(w));
        acc = _mm256_dpbusd_avx_epi32(acc, w, x);
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+x"(acc)); }
};

}  // namespace

constinit const ProbeTable kAvxVnniProbe = {.name = "avxvnni",
                                            .read = avx2::kReads,
                                            .int8 = chain_of<DotLink>(),
                                            .fma = {avx2::fma_chain, avx2::kFmaMacsPerRound}};

}  // namespace tessera::kernels
