// The rooflines of AVX2 with FMA. The empty assembly makes the compiler assume that a value changed, so that
// it neither drops the work nor hoists it out of the loop; it costs no instruction.
#include "quants/arch/avx2/probe.h"

#include <immintrin.h>

#include "quants/kernels/probe.inl"

namespace tessera::kernels {

namespace {

struct Int8Link {
    using Acc = __m256i;
    static constexpr int kChains = 12, kMacs = 32;
    TSR_INLINE Acc zero() { return _mm256_setzero_si256(); }
    TSR_INLINE __m256i first() { return _mm256_set1_epi8(5); }
    TSR_INLINE __m256i second() { return _mm256_set1_epi8(3); }
    TSR_INLINE void step(Acc& acc, __m256i& w, __m256i x) {
        __asm__ volatile("" : "+x"(w));
        const __m256i pairs = _mm256_maddubs_epi16(w, x);
        acc = _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+x"(acc)); }
};

struct FmaLink {
    using Acc = __m256;
    // Latency times throughput of an FMA is 8 to 10 on the processors since 2013.
    static constexpr int kChains = 12, kMacs = 8;
    TSR_INLINE Acc zero() { return _mm256_setzero_ps(); }
    TSR_INLINE __m256 first() { return _mm256_set1_ps(1.5f); }
    TSR_INLINE __m256 second() { return _mm256_set1_ps(0.5f); }
    TSR_INLINE void step(Acc& acc, __m256 w, __m256 x) {
        acc = _mm256_fmadd_ps(w, x, acc);
        hide(acc);  // one at a time, or equal chains would be merged
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+x"(acc)); }
};
static_assert(chain_of<FmaLink>().macs_per_round == avx2::kFmaMacsPerRound);

/// kStreams streams side by side, each prefetched kAhead bytes ahead.
template <int kStreams, int kAhead>
void read_streams(const void* p, size_t n_bytes) {
    const auto* base = static_cast<const char*>(p);
    const size_t n_stream = n_bytes / kStreams;
    __m256i acc[kStreams][2];
    TSR_UNROLL
    for (int s = 0; s < kStreams; s++) acc[s][0] = acc[s][1] = _mm256_setzero_si256();
    for (size_t at = 0; at < n_stream; at += 64) {
        TSR_UNROLL
        for (int s = 0; s < kStreams; s++) {
            const auto* line =
                reinterpret_cast<const __m256i*>(base + static_cast<size_t>(s) * n_stream + at);
            _mm_prefetch(reinterpret_cast<const char*>(line) + kAhead, _MM_HINT_T0);
            acc[s][0] = _mm256_xor_si256(acc[s][0], _mm256_loadu_si256(line));
            acc[s][1] = _mm256_xor_si256(acc[s][1], _mm256_loadu_si256(line + 1));
        }
    }
    TSR_UNROLL
    for (int s = 0; s < kStreams; s++) __asm__ volatile("" : "+x"(acc[s][0]), "+x"(acc[s][1]));
}

}  // namespace

namespace avx2 {

void read_side_by_side(const void* p, size_t n_bytes) { read_streams<4, 1024>(p, n_bytes); }
void read_in_order(const void* p, size_t n_bytes) { read_streams<1, 2048>(p, n_bytes); }

void fma_chain(int64_t n_rounds) { run_chains<FmaLink>(n_rounds); }

}  // namespace avx2

constinit const ProbeTable kAvx2Probe = {
    .name = "avx2", .read = avx2::kReads, .int8 = chain_of<Int8Link>(), .fma = chain_of<FmaLink>()};

}  // namespace tessera::kernels
