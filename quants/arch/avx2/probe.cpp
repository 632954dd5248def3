// The limits of AVX2 with FMA, and the tables of the instruction sets beyond it, which read as it does. The
// empty assembly makes the compiler think that a value changed, so that it neither drops the work nor moves
// it out of the loop; it costs no instruction.
#include "quants/kernels/probe.h"

#include <immintrin.h>

#include "quants/arch/avx512/probe.h"
#include "quants/arch/avxvnni/probe.h"
#include "quants/kernels/inline.h"

namespace tessera::kernels {

namespace {

constexpr int kStreams = 4;
constexpr int kChains = 12;  // latency times throughput of an FMA is 8 to 10 on the processors since 2013

void read(const void* p, size_t n_bytes) {
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
            _mm_prefetch(reinterpret_cast<const char*>(line) + 1024, _MM_HINT_T0);
            acc[s][0] = _mm256_xor_si256(acc[s][0], _mm256_loadu_si256(line));
            acc[s][1] = _mm256_xor_si256(acc[s][1], _mm256_loadu_si256(line + 1));
        }
    }
    TSR_UNROLL
    for (int s = 0; s < kStreams; s++) __asm__ volatile("" : "+x"(acc[s][0]), "+x"(acc[s][1]));
}

void int8_chain(int64_t n_rounds) {
    __m256i acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = _mm256_setzero_si256();
    const __m256i ones = _mm256_set1_epi16(1), x = _mm256_set1_epi8(3);
    __m256i w = _mm256_set1_epi8(5);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            __asm__ volatile("" : "+x"(w));
            acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), ones));
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+x"(acc[i]));
}

void fma_chain(int64_t n_rounds) {
    __m256 acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = _mm256_setzero_ps();
    const __m256 w = _mm256_set1_ps(1.5f), x = _mm256_set1_ps(0.5f);
    for (int64_t round = 0; round < n_rounds; round++) {
        // Each chain is touched by itself, or equal chains would be merged into one.
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            acc[i] = _mm256_fmadd_ps(w, x, acc[i]);
            __asm__ volatile("" : "+x"(acc[i]));
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+x"(acc[i]));
}

}  // namespace

constinit const ProbeTable kAvx2Probe = {
    .name = "avx2", .read = read, .int8 = {int8_chain, kChains * 32}, .fma = {fma_chain, kChains * 8}};
constinit const ProbeTable kAvxVnniProbe = {.name = "avxvnni",
                                            .read = read,
                                            .int8 = {avxvnni::int8_chain, avxvnni::kInt8MacsPerRound},
                                            .fma = {fma_chain, kChains * 8}};
constinit const ProbeTable kAvx512VnniProbe = {.name = "avx512vnni",
                                               .read = read,
                                               .int8 = {avx512::int8_chain, avx512::kInt8MacsPerRound},
                                               .fma = {avx512::fma_chain, avx512::kFmaMacsPerRound}};

}  // namespace tessera::kernels
