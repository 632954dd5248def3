#pragma once
// Attention of one query head over 8-bit keys and values, in the device's integers.
#include <array>
#include <cstdint>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// y[n] = factor * sum_k x[k] * w[n, k], where w are keys or values as signed bytes (kv_encoding()).
class DynamicProduct {
  public:
    /// n_k: the longest sum, at most 65536. factor: 1 / sqrt(head_dim) for scores, 1 for values.
    static Result<DynamicProduct> create(const Encoding& x, const Encoding& kv, const Encoding& y,
                                         double factor, int64_t n_k, OutputMode mode = OutputMode::Exact);
    /// One output: n_k values of x times n_k bytes of w, w_stride bytes apart.
    uint16_t apply(const uint16_t* x, const uint8_t* w, int64_t w_stride, int64_t n_k) const;

    const Multiplier& factor() const { return factor_; }

  private:
    Encoding x_, kv_, y_;
    Multiplier factor_;
    OutputMode mode_ = OutputMode::Exact;
};

/// exp(-256 i scale) and exp(-i scale) in units of 2^-31.
struct ExpTables {
    std::array<uint32_t, 256> high, low;
};

/// The reference definition, used by MaskedSoftmax.
void softmax_row(const ExpTables& tables, const uint16_t* x, int64_t n, int64_t first, int64_t last,
                 uint16_t* p);

/// Softmax of scores. Masked positions get exactly 0, and all sums are exact integers, so neither computing
/// masked positions nor the order of summation changes the result.
class MaskedSoftmax {
  public:
    explicit MaskedSoftmax(const Encoding& scores);

    /// The output's encoding: scale 1 / 65535, zero 0.
    static Encoding output() { return {.bits = 16, .scale = 1.0f / 65535.0f, .zero = 0}; }

    /// p[i] of positions first <= i < last of a row of n <= 65536; all 0 if there are none. p may be x. With
    /// mx the largest score, e[i] = (high[(mx - x) >> 8] * low[(mx - x) & 255]) >> 31, p[i] = (e[i] * 65535 +
    /// sum / 2) / sum.
    void apply(const uint16_t* x, int64_t n, int64_t first, int64_t last, uint16_t* p) const {
        softmax_row(tables_, x, n, first, last, p);
    }

    const ExpTables& tables() const { return tables_; }

  private:
    ExpTables tables_;
};

}  // namespace tessera::npu
