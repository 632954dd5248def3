// The scalar reference definition of the rotation. Angles are converted to codes at creation with our own
// sine, because the C library's may differ in the last bit between machines, and the table is part of a
// compiled file.
#include "src/npu/rope.h"

#include <cmath>

namespace tessera::npu {

namespace {

constexpr int kOne = 32767;

/// cos and sin by their series after range reduction to +-pi / 4. Far more exact than the codes need.
struct CosSin {
    double cos, sin;
};
CosSin cos_sin(double angle) {
    constexpr double kQuarterHigh = 0x1.921fb54400000p+0, kQuarterLow = 0x1.0b4611a626331p-34;
    const double quarters = std::nearbyint(angle * 0x1.45f306dc9c883p-1);
    const double r = (angle - quarters * kQuarterHigh) - quarters * kQuarterLow, z = r * r;
    double cos = 0, sin = 0;
    for (int i = 16; i > 0; i -= 2) {
        cos = 1 - z / (i * (i - 1)) * (i == 16 ? 1 : cos);
        sin = 1 - z / (i * (i + 1)) * (i == 16 ? 1 : sin);
    }
    sin *= r;
    switch (static_cast<int64_t>(quarters) & 3) {
        case 0:
            return {cos, sin};
        case 1:
            return {-sin, cos};
        case 2:
            return {-cos, -sin};
        default:
            return {sin, -cos};
    }
}

int16_t code(double value) { return static_cast<int16_t>(std::lrint(value * kOne)); }

}  // namespace

Result<Rope> Rope::create(const std::vector<double>& angles, int64_t n_rot, int64_t head_dim, RopePairs pairs,
                          double magnitude, const Encoding& x, const Encoding& y) {
    if (n_rot < 2 || n_rot % 2 != 0 || n_rot > head_dim)
        return fail(ErrorCode::InvalidArgument,
                    "rotary positions: expected an even number from 2 to %lld of rotated values, found %lld",
                    static_cast<long long>(head_dim), static_cast<long long>(n_rot));
    Rope op;
    RopeFactors& f = op.factors_;
    f = {.x = x,
         .y = y,
         .n_rot = static_cast<int32_t>(n_rot),
         .head_dim = static_cast<int32_t>(head_dim),
         .pairs = pairs,
         .rotated = {},
         .kept = {}};
    for (const double angle : angles) {
        if (!(std::fabs(angle) < 1e6))
            return fail(ErrorCode::InvalidArgument, "rotary positions: expected angles below 10^6, found %g",
                        angle);
        const CosSin cs = cos_sin(angle);
        op.table_.push_back(code(cs.cos));
        op.table_.push_back(code(cs.sin));
    }
    const double factor = static_cast<double>(x.scale) / static_cast<double>(y.scale);
    TSR_TRY(f.rotated, make_multiplier(factor * magnitude / kOne, int64_t{2} * kOne * x.max()));
    TSR_TRY(f.kept, make_multiplier(factor, x.max()));
    return op;
}

void rotate_head(const RopeFactors& f, const int16_t* cos_sin, const uint16_t* x, uint16_t* y) {
    const auto put = [&](int64_t i, int64_t value) {
        y[i] = static_cast<uint16_t>(f.y.clamp(f.y.zero + value));
    };
    const int64_t half = f.n_rot / 2;
    for (int64_t i = 0; i < half; ++i) {
        const int64_t first = f.pairs == RopePairs::Adjacent ? 2 * i : i;
        const int64_t second = f.pairs == RopePairs::Adjacent ? 2 * i + 1 : i + half;
        const int64_t a = x[first] - f.x.zero, b = x[second] - f.x.zero;
        const int64_t c = cos_sin[2 * i], s = cos_sin[2 * i + 1];
        put(first, f.rotated.apply(a * c - b * s));
        put(second, f.rotated.apply(a * s + b * c));
    }
    for (int64_t i = f.n_rot; i < f.head_dim; ++i) put(i, f.kept.apply(x[i] - f.x.zero));
}

}  // namespace tessera::npu
