// The rooflines of AVX-512 with VNNI; reads are those of AVX2. Method: quants/arch/avx2/probe.cpp.
#include <immintrin.h>

#include "quants/arch/avx2/probe.h"
#include "quants/kernels/probe.inl"

namespace tessera::kernels {

namespace {

struct DotLink {
    using Acc = __m512i;
    static constexpr int kChains = 12, kMacs = 64;
    TSR_INLINE Acc zero() { return _mm512_setzero_si512(); }
    TSR_INLINE __m512i first() { return _mm512_set1_epi8(5); }
    TSR_INLINE __m512i second() { return _mm512_set1_epi8(3); }
    TSR_INLINE void step(Acc& acc, __m512i& w, __m512i x) {
        __asm__ volatile("" : "+v"(w));
        acc = _mm512_dpbusd_epi32(acc, w, x);
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+v"(acc)); }
};

struct FmaLink {
    using Acc = __m512;
    static constexpr int kChains = 12, kMacs = 16;
    TSR_INLINE Acc zero() { return _mm512_setzero_ps(); }
    TSR_INLINE __m512 first() { return _mm512_set1_ps(1.5f); }
    TSR_INLINE __m512 second() { return _mm512_set1_ps(0.5f); }
    TSR_INLINE void step(Acc& acc, __m512 w, __m512 x) {
        acc = _mm512_fmadd_ps(w, x, acc);
        hide(acc);
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+v"(acc)); }
};

}  // namespace

constinit const ProbeTable kAvx512VnniProbe = {
    .name = "avx512vnni", .read = avx2::kReads, .int8 = chain_of<DotLink>(), .fma = chain_of<FmaLink>()};

}  // namespace tessera::kernels
