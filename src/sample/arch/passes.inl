// The passes over a row as plain loops without branches and with inner loops of fixed length, which the
// compiler vectorizes for the instruction set of the including unit. Everything is local to the unit
// (cmake/isa.cmake). The bits do not depend on the vector width: floats are never summed, and sums of
// integers do not depend on the order.
#include "src/sample/passes.h"

namespace tessera::sample {

namespace {

/// An order-preserving map of floats to integers, its own inverse: compilers vectorize the maximum of
/// integers, but not that of floats.
TSR_SAMPLE_INLINE int32_t rank_bits(int32_t bits) { return bits ^ (bits >> 31 & 0x7FFFFFFF); }

TSR_SAMPLE_INLINE float best_of(const float* x) {
    int32_t best = INT32_MIN;
    for (size_t i = 0; i < kRowBlock; i++) {
        const int32_t rank = rank_bits(__builtin_bit_cast(int32_t, x[i]));
        best = rank > best ? rank : best;
    }
    return __builtin_bit_cast(float, rank_bits(best));
}

int64_t copy(const float* from, float* x, float* best, size_t n_blocks) {
    int64_t n_nan = 0;
    for (size_t b = 0; b < n_blocks; b++, from += kRowBlock, x += kRowBlock) {
        int32_t n = 0;
        for (size_t i = 0; i < kRowBlock; i++) {
            const bool nan = from[i] != from[i];
            n += nan ? 1 : 0;
            x[i] = nan ? kBannedLogit : from[i];
        }
        n_nan += n;
        best[b] = best_of(x);
    }
    return n_nan;
}

void find_best(const float* x, float* best, size_t n_blocks) {
    for (size_t b = 0; b < n_blocks; b++) best[b] = best_of(x + b * kRowBlock);
}

/// The sum of a block of terms, each rounded to an integer. The terms come from a separate loop, since loops
/// that mix floats and 64-bit integers are not vectorized.
TSR_SAMPLE_INLINE uint64_t sum_of_block(const float* terms) {
    uint64_t sum = 0;
    for (size_t i = 0; i < kRowBlock; i++) sum += shifted_bits(terms[i]);
    return sum - kRowBlock * __builtin_bit_cast(uint64_t, kRoundToWhole);
}

uint64_t weigh(const float* x, const float* best, size_t n_blocks, float max, uint64_t* masses) {
    uint64_t sum = 0;
    for (size_t b = 0; b < n_blocks; b++, x += kRowBlock) {
        masses[b] = 0;
        if (!weighs(best[b], max)) continue;
        float weights[kRowBlock];
        for (size_t i = 0; i < kRowBlock; i++) weights[i] = scaled_exp(x[i] - max);
        sum += masses[b] = sum_of_block(weights);
    }
    return sum;
}

Mass mass(const float* x, const float* best, size_t n_blocks, float max) {
    Mass sums;
    for (size_t b = 0; b < n_blocks; b++, x += kRowBlock) {
        if (!weighs(best[b], max)) continue;
        float weights[kRowBlock], moments[kRowBlock];
        for (size_t i = 0; i < kRowBlock; i++) {
            weights[i] = scaled_exp(x[i] - max);
            moments[i] = scaled_moment(x[i], max);
        }
        sums.weight += sum_of_block(weights);
        sums.moment += sum_of_block(moments);
    }
    return sums;
}

void temper(float* x, size_t n, float max, float inverse) {
    for (size_t i = 0; i < n; i++) x[i] = tempered(x[i], max, inverse);
}

uint64_t weights(const float* __restrict x, size_t n_blocks, float max, float* __restrict out) {
    uint64_t sum = 0;
    for (size_t b = 0; b < n_blocks; b++, x += kRowBlock, out += kRowBlock) {
        for (size_t i = 0; i < kRowBlock; i++) out[i] = scaled_exp(x[i] - max);
        sum += sum_of_block(out);
    }
    return sum;
}

void prefer(float* __restrict x, float* __restrict p, float* best, size_t n_blocks, float inverse,
            const Preference* preference) {
    const Preference fixed = *preference;
    for (size_t b = 0; b < n_blocks; b++, x += kRowBlock, p += kRowBlock) {
        for (size_t i = 0; i < kRowBlock; i++) {
            // Loaded before the store: p and x often have the same offset within a page, and a later load
            // would then wait for the store (4K aliasing).
            const float logit = x[i], share = p[i] * inverse;
            p[i] = share;
            const float fresh = preferred(share, fixed);
            x[i] = logit == kBannedLogit ? kBannedLogit : fresh;
        }
        best[b] = best_of(x);
    }
}

}  // namespace

}  // namespace tessera::sample
