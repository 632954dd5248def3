// The rooflines of NEON. The empty assembly makes the compiler assume that a value changed, so that it
// neither drops the work nor hoists it out of the loop; it costs no instruction.
#include "quants/arch/neon/probe.h"

#include <arm_neon.h>

#include "quants/kernels/probe.inl"

namespace tessera::kernels {

namespace {

/// Without dot products: eight bytes at a time into halfwords.
struct Int8Link {
    struct Acc {
        int16x8_t low, high;
    };
    static constexpr int kChains = 8, kMacs = 16;
    TSR_INLINE Acc zero() { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
    TSR_INLINE int8x16_t first() { return vdupq_n_s8(5); }
    TSR_INLINE int8x16_t second() { return vdupq_n_s8(3); }
    TSR_INLINE void step(Acc& acc, int8x16_t& w, int8x16_t x) {
        __asm__ volatile("" : "+w"(w));
        acc.low = vmlal_s8(acc.low, vget_low_s8(w), vget_low_s8(x));
        acc.high = vmlal_high_s8(acc.high, w, x);
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+w"(acc.low), "+w"(acc.high)); }
};

struct FmaLink {
    using Acc = float32x4_t;
    // Latency times throughput of a fused multiply-add is 16 on cores of four pipes.
    static constexpr int kChains = 16, kMacs = 4;
    TSR_INLINE Acc zero() { return vdupq_n_f32(0.0f); }
    TSR_INLINE float32x4_t first() { return vdupq_n_f32(1.5f); }
    TSR_INLINE float32x4_t second() { return vdupq_n_f32(0.5f); }
    TSR_INLINE void step(Acc& acc, float32x4_t w, float32x4_t x) {
        acc = vfmaq_f32(acc, w, x);
        hide(acc);  // one at a time, or equal chains would be merged
    }
    TSR_INLINE void hide(Acc& acc) { __asm__ volatile("" : "+w"(acc)); }
};
static_assert(chain_of<FmaLink>().macs_per_round == neon::kFmaMacsPerRound);

/// kStreams streams side by side, each prefetched kAhead bytes ahead.
template <int kStreams, int kAhead>
void read_streams(const void* p, size_t n_bytes) {
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
            __builtin_prefetch(line + kAhead);
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

}  // namespace

namespace neon {

void read_side_by_side(const void* p, size_t n_bytes) { read_streams<4, 1024>(p, n_bytes); }
void read_in_order(const void* p, size_t n_bytes) { read_streams<1, 2048>(p, n_bytes); }

void fma_chain(int64_t n_rounds) { run_chains<FmaLink>(n_rounds); }

}  // namespace neon

constinit const ProbeTable kNeonProbe = {
    .name = "neon", .read = neon::kReads, .int8 = chain_of<Int8Link>(), .fma = chain_of<FmaLink>()};

}  // namespace tessera::kernels
