#pragma once
// Passes over a whole row of logits, compiled once per instruction set into one constant table each, all with
// the same bits. Private to this folder. Units compiled for one instruction set include this file: C headers
// only, and everything is inlined.
#include <stddef.h>
#include <stdint.h>

#include "src/sample/fixed_exp.h"

namespace tessera::sample {

/// Number of logits per block; the last block is padded with -inf.
inline constexpr size_t kRowBlock = 64;

/// Sum of weights (fixed_exp.h), and sum of each weight times its distance from the best logit.
struct Mass {
    uint64_t weight = 0;
    uint64_t moment = 0;
};

/// A logit divided by a temperature, relative to the best logit `max`, which becomes 0. Increases with the
/// logit.
TSR_SAMPLE_INLINE float tempered(float logit, float max, float inverse) {
    const float scaled = (logit - max) * inverse;
    return logit == max ? 0.0f : scaled;
}

/// A preference for a probability as logits: `peak` at the target, decreasing with the distance in widths,
/// first quadratically and then linearly.
struct Preference {
    float target;
    float inverse_width;
    float peak, sharpness;
};

TSR_SAMPLE_INLINE float preferred(float p, const Preference& preference) {
    const float off = p - preference.target;
    const float distance = (off < 0 ? -off : off) * preference.inverse_width;
    return preference.peak - preference.sharpness * distance * distance / (1 + distance);
}

/// x is [n_blocks * kRowBlock], best [n_blocks], no NaN but in `from`; max is finite and no logit above it.
struct RowPasses {
    const char* name;

    /// Copies, with NaN as -inf, and finds the best of each block. Returns how many NaNs there were.
    int64_t (*copy)(const float* from, float* x, float* best, size_t n_blocks);
    /// The best of each block.
    void (*find_best)(const float* x, float* best, size_t n_blocks);
    /// The sum of weights of each block, and of all.
    uint64_t (*weigh)(const float* x, const float* best, size_t n_blocks, float max, uint64_t* masses);
    Mass (*mass)(const float* x, const float* best, size_t n_blocks, float max);
    /// tempered() for the first n of x; n is arbitrary.
    void (*temper)(float* x, size_t n, float max, float inverse);
    /// out[i] = scaled_exp(x[i] - max), not rounded; returns the sum as weigh() does.
    uint64_t (*weights)(const float* x, size_t n_blocks, float max, float* out);
    /// p, like x: p[i] *= inverse, then preferred(p[i]) in place of each x[i] that is not -inf; then the best
    /// of each block.
    void (*prefer)(float* x, float* p, float* best, size_t n_blocks, float inverse,
                   const Preference* preference);
};

extern const RowPasses kPassesBaseline, kPassesAvx2;

/// The table of the widest instruction set that the machine has and TESSERA_ISA allows; chosen once.
const RowPasses& row_passes();

}  // namespace tessera::sample
