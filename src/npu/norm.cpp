// The scalar definition of the norm. The only floating point that decides bits at run time is here: two
// correctly rounded operations a row, never contracted.
#include "src/npu/norm.h"

#include <algorithm>
#include <cmath>

namespace tessera::npu {

namespace {

/// Of x / rms: 16 bits behind the point.
constexpr double kUnit = 0x1p16;

/// |x| / rms is at most sqrt(n) in steps of 1 / kUnit, and up to two more by rounding.
int64_t largest_normalized(int64_t n) {
    return static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n)) * kUnit)) + 2;
}

}  // namespace

Result<RmsNorm> RmsNorm::create(const float* gamma, int64_t n, float eps, const Encoding& x,
                                const Encoding& y) {
    if (n < 1 || n > 65536)
        return fail(ErrorCode::Unsupported, "norm: expected rows of 1 to 65536 values, found %lld",
                    static_cast<long long>(n));
    if (!(eps >= 0) || !std::isfinite(eps))
        return fail(ErrorCode::InvalidArgument, "norm: expected an epsilon of at least 0, found %g",
                    static_cast<double>(eps));
    RmsNorm op;
    op.x_ = x;
    op.y_ = y;
    op.eps_ = static_cast<double>(eps);
    const auto [low, high] = std::minmax_element(gamma, gamma + n);
    TSR_TRY(const Encoding codes, encoding_of_range(*low, *high, 16));
    std::vector<uint16_t> q(static_cast<size_t>(n));
    if (quantize(codes, gamma, n, q.data()) > 0)
        return fail(ErrorCode::Malformed, "norm: a weight is no number");
    for (const uint16_t code : q) op.gamma_.push_back(code - codes.zero);
    const double factor = static_cast<double>(codes.scale) / (kUnit * static_cast<double>(y.scale));
    TSR_TRY(op.to_y_, make_multiplier(factor, largest_normalized(n) * codes.max()));
    return op;
}

void RmsNorm::apply(const uint16_t* x, uint16_t* y) const {
    const size_t n = gamma_.size();
    uint64_t squares = 0;
    for (size_t i = 0; i < n; ++i) {
        const int64_t value = x[i] - x_.zero;
        squares += static_cast<uint64_t>(value * value);
    }
    const double scale = static_cast<double>(x_.scale);
    const double mean = static_cast<double>(squares) * (scale * scale) / static_cast<double>(n) + eps_;
    // Below 2^26: x / rms is at most sqrt(n), also for x = 1. Without squares there is nothing to scale.
    const double factor = squares == 0 ? 0.0 : scale / std::sqrt(mean) * kUnit;
    const auto to_unit = make_multiplier(factor, x_.max());
    const Multiplier m = to_unit ? *to_unit : Multiplier{};
    for (size_t i = 0; i < n; ++i) {
        const int64_t normalized = m.apply(x[i] - x_.zero);
        y[i] = static_cast<uint16_t>(y_.clamp(y_.zero + to_y_.apply(normalized * gamma_[i])));
    }
}

}  // namespace tessera::npu
