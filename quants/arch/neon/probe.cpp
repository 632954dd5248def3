// The limits of NEON, without and with dot products and 8-bit matrix products. The empty assembly makes the
// compiler think that a value changed, so that it neither drops the work nor moves it out of the loop; it
// costs no instruction.
#include "quants/kernels/probe.h"

#include <arm_neon.h>

#include "quants/arch/dotprod/probe.h"
#include "quants/arch/i8mm/probe.h"
#include "quants/kernels/inline.h"

namespace tessera::kernels {

namespace {

constexpr int kStreams = 4;
constexpr int kChains = 16;  // latency times throughput of a fused multiply-add is 16 on cores of four pipes

void read(const void* p, size_t n_bytes) {
    const auto* base = static_cast<const uint8_t*>(p);
    const size_t n_stream = n_bytes / kStreams;
    uint8x16_t acc[kStreams][4];
    TSR_UNROLL
    for (int s = 0; s < kStreams; s++) {
        TSR_UNROLL
        for (int i = 0; i < 4; i++) acc[s][i] = vdupq_n_u8(0);
    }
    for (size_t at = 0; at < n_stream; at += 64) {
        TSR_UNROLL
        for (int s = 0; s < kStreams; s++) {
            const uint8_t* line = base + static_cast<size_t>(s) * n_stream + at;
            __builtin_prefetch(line + 1024);
            TSR_UNROLL
            for (int i = 0; i < 4; i++) acc[s][i] = veorq_u8(acc[s][i], vld1q_u8(line + 16 * i));
        }
    }
    TSR_UNROLL
    for (int s = 0; s < kStreams; s++) {
        TSR_UNROLL
        for (int i = 0; i < 4; i++) __asm__ volatile("" : "+w"(acc[s][i]));
    }
}

void int8_chain(int64_t n_rounds) {
    int16x8_t acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = vdupq_n_s16(0);
    const int8x16_t x = vdupq_n_s8(3);
    int8x16_t w = vdupq_n_s8(5);
    for (int64_t round = 0; round < n_rounds; round++) {
        TSR_UNROLL
        for (int i = 0; i < kChains; i += 2) {
            __asm__ volatile("" : "+w"(w));
            acc[i] = vmlal_s8(acc[i], vget_low_s8(w), vget_low_s8(x));
            acc[i + 1] = vmlal_high_s8(acc[i + 1], w, x);
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+w"(acc[i]));
}

void fma_chain(int64_t n_rounds) {
    float32x4_t acc[kChains];
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) acc[i] = vdupq_n_f32(0.0f);
    const float32x4_t w = vdupq_n_f32(1.5f), x = vdupq_n_f32(0.5f);
    for (int64_t round = 0; round < n_rounds; round++) {
        // Each chain is touched by itself, or equal chains would be merged into one.
        TSR_UNROLL
        for (int i = 0; i < kChains; i++) {
            acc[i] = vfmaq_f32(acc[i], w, x);
            __asm__ volatile("" : "+w"(acc[i]));
        }
    }
    TSR_UNROLL
    for (int i = 0; i < kChains; i++) __asm__ volatile("" : "+w"(acc[i]));
}

}  // namespace

constinit const ProbeTable kNeonProbe = {
    .name = "neon", .read = read, .int8 = {int8_chain, kChains * 8}, .fma = {fma_chain, kChains * 4}};
constinit const ProbeTable kDotprodProbe = {.name = "dotprod",
                                            .read = read,
                                            .int8 = {dotprod::int8_chain, dotprod::kInt8MacsPerRound},
                                            .fma = {fma_chain, kChains * 4}};
constinit const ProbeTable kI8mmProbe = {.name = "i8mm",
                                         .read = read,
                                         .int8 = {i8mm::int8_chain, i8mm::kInt8MacsPerRound},
                                         .fma = {fma_chain, kChains * 4}};

}  // namespace tessera::kernels
