#pragma once
// The root mean square norm in the device's integers.
#include <cstdint>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// y[i] = x[i] / sqrt(mean(x^2) + eps) * gamma[i]. The sum of squares is exact; its root is one IEEE square
/// root and one division of doubles, which round correctly everywhere; x / rms is kept with 16 bits behind
/// the point.
class RmsNorm {
  public:
    /// gamma [n], finite, stored as 16-bit codes of its own range. 1 <= n <= 2^16, eps >= 0. Errors name what
    /// is out of range.
    static Result<RmsNorm> create(const float* gamma, int64_t n, float eps, const Encoding& x,
                                  const Encoding& y);

    /// One row of n values; y may be x.
    void apply(const uint16_t* x, uint16_t* y) const;

  private:
    Encoding x_, y_;
    double eps_ = 0;
    std::vector<int32_t> gamma_;  // less its zero
    Multiplier to_y_;
};

}  // namespace tessera::npu
