#pragma once
// sine and cosine in double from additions and multiplications alone, so that rotary angles have the same
// bits on every machine (the C library's versions choose by processor). |x| < 2^30 or so; error below 1e-15 +
// |x| 2^-53.
#include <cmath>

namespace tessera::cpu {

struct SinCos {
    double sin, cos;
};

/// Cody-Waite reduction to [-pi/4, pi/4] by three parts of pi/2, then Taylor sums to r^17 and r^16.
inline SinCos sincos_exact(double x) {
    constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
    constexpr double kHalfPi1 = 0x1.921fb544p+0, kHalfPi2 = 0x1.0b4611a6p-34,
                     kHalfPi3 = 0x1.3198a2e037073p-69;
    const double n = std::nearbyint(x * kTwoOverPi);
    const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
    const double z = r * r;
    double s = 1.0 / 355687428096000.0;
    for (const double c : {-1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0, 1.0 / 362880.0,
                           -1.0 / 5040.0, 1.0 / 120.0, -1.0 / 6.0})
        s = s * z + c;
    const double sin_r = r + r * z * s;
    double c = 1.0 / 20922789888000.0;
    for (const double k : {-1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0, 1.0 / 40320.0,
                           -1.0 / 720.0, 1.0 / 24.0, -1.0 / 2.0})
        c = c * z + k;
    const double cos_r = 1.0 + z * c;
    switch (static_cast<long long>(n) & 3) {
        case 0:
            return {sin_r, cos_r};
        case 1:
            return {cos_r, -sin_r};
        case 2:
            return {-sin_r, -cos_r};
        default:
            return {-cos_r, sin_r};
    }
}

}  // namespace tessera::cpu
