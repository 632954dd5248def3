#pragma once
// RMS norm in the device's integers.
#include <cstdint>
#include <span>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// The parameters of a norm other than its weights.
struct NormFactors {
    Encoding x, y;
    double eps = 0;
    int32_t zero_gamma = 0;  ///< zero point of the weights' codes
    Multiplier to_y;
};

/// The reference definition, used by RmsNorm: a row of n codes with n weight codes. y may be x.
void norm_row(const NormFactors& factors, int64_t n, const uint16_t* gamma, const uint16_t* x, uint16_t* y);

/// y[i] = x[i] / sqrt(mean(x^2) + eps) * gamma[i]. The sum of squares is exact; the root takes one square
/// root and one division in double, which IEEE 754 rounds correctly everywhere; x / rms is kept with 16
/// fractional bits.
class RmsNorm {
  public:
    /// gamma [n], finite, stored as 16-bit codes of its own range. 1 <= n <= 2^16, eps >= 0. Errors name the
    /// value that is out of range.
    static Result<RmsNorm> create(const float* gamma, int64_t n, float eps, const Encoding& x,
                                  const Encoding& y);

    /// One row of n values; y may be x.
    void apply(const uint16_t* x, uint16_t* y) const {
        norm_row(factors_, static_cast<int64_t>(gamma_.size()), gamma_.data(), x, y);
    }

    const NormFactors& factors() const { return factors_; }
    std::span<const uint16_t> gamma() const { return gamma_; }

  private:
    NormFactors factors_;
    std::vector<uint16_t> gamma_;
};

}  // namespace tessera::npu
