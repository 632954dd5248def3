// The rooflines of plain C, one number at a time, as the scalar kernels work. The empty assembly makes the
// compiler assume that a value changed, so that it neither drops the work nor hoists it out of the loop.
#include "quants/kernels/probe.h"

namespace tessera::kernels {

namespace {

constexpr int kChains = 8;

// An operand that is opaque to the compiler.
template <class T>
[[gnu::always_inline]] inline T opaque(T value) {
    volatile T hidden = value;
    return hidden;
}

template <size_t kStreams>
void read_streams(const void* p, size_t n_bytes) {
    const auto* words = static_cast<const uint64_t*>(p);
    const size_t n_stream = n_bytes / sizeof(uint64_t) / kStreams;
    uint64_t acc[kStreams] = {};
    for (size_t at = 0; at < n_stream; at++) {
        for (size_t s = 0; s < kStreams; s++) acc[s] ^= words[s * n_stream + at];
    }
    for (uint64_t& sum : acc) opaque(sum);
}

void int8_chain(int64_t n_rounds) {
    int32_t acc[kChains] = {};
    for (int64_t round = 0; round < n_rounds; round++) {
        int32_t w = 5;
        __asm__ volatile("" : "+r"(w));
        for (int32_t& sum : acc) sum += w * static_cast<int8_t>(round);
        __asm__ volatile("" ::: "memory");
    }
    for (int32_t& sum : acc) opaque(sum);
}

void fma_chain(int64_t n_rounds) {
    float acc[kChains] = {};
    const float w = opaque(1.5f), x = opaque(0.5f);
    for (int64_t round = 0; round < n_rounds; round++) {
        for (float& sum : acc) sum = __builtin_fmaf(w, x, sum);
    }
    for (float& sum : acc) opaque(sum);
}

}  // namespace

constinit const ProbeTable kScalarProbe = {.name = "scalar",
                                           .read = {read_streams<4>, read_streams<1>},
                                           .int8 = {int8_chain, kChains},
                                           .fma = {fma_chain, kChains}};

}  // namespace tessera::kernels
