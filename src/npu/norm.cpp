// The scalar reference definition of the norm. It contains the only floating-point arithmetic that affects
// results at run time: two correctly rounded operations per row, never contracted.
#include "src/npu/norm.h"

#include <algorithm>
#include <cmath>

namespace tessera::npu {

namespace {

/// x / rms has 16 fractional bits.
constexpr double kUnit = 0x1p16;

/// |x| / rms is at most sqrt(n) in steps of 1 / kUnit, plus up to two steps of rounding.
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
    const auto [low, high] = std::minmax_element(gamma, gamma + n);
    TSR_TRY(const Encoding codes, encoding_of_range(*low, *high, 16));
    op.gamma_.resize(static_cast<size_t>(n));
    if (quantize(codes, gamma, n, op.gamma_.data()) > 0)
        return fail(ErrorCode::Malformed, "norm: a weight is not a finite number");
    const double factor = static_cast<double>(codes.scale) / (kUnit * static_cast<double>(y.scale));
    TSR_TRY(const Multiplier to_y, make_multiplier(factor, largest_normalized(n) * codes.max()));
    op.factors_ = {.x = x, .y = y, .eps = static_cast<double>(eps), .zero_gamma = codes.zero, .to_y = to_y};
    return op;
}

void norm_row(const NormFactors& f, int64_t n, const uint16_t* gamma, const uint16_t* x, uint16_t* y) {
    uint64_t squares = 0;
    for (int64_t i = 0; i < n; ++i) {
        const int64_t value = x[i] - f.x.zero;
        squares += static_cast<uint64_t>(value * value);
    }
    const double scale = static_cast<double>(f.x.scale);
    const double mean = static_cast<double>(squares) * (scale * scale) / static_cast<double>(n) + f.eps;
    // Below 2^26, because x / rms <= sqrt(n), also for x = 1. If the sum of squares is 0, all results are 0.
    const double factor = squares == 0 ? 0.0 : scale / std::sqrt(mean) * kUnit;
    const auto to_unit = make_multiplier(factor, f.x.max());
    const Multiplier m = to_unit ? *to_unit : Multiplier{};
    for (int64_t i = 0; i < n; ++i) {
        const int64_t normalized = m.apply(x[i] - f.x.zero);
        const int64_t weighted = product(normalized, gamma[i] - f.zero_gamma);
        y[i] = static_cast<uint16_t>(f.y.clamp(f.y.zero + f.to_y.apply(weighted)));
    }
}

}  // namespace tessera::npu
