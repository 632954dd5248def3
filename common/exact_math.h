#pragma once
// exp and log in double from basic arithmetic alone: the C library's versions may round the last bit by
// processor, and rotary frequencies must be the same everywhere. Relative error below 1e-15; for finite,
// moderate arguments.
#include <cmath>

namespace tessera {

/// e^x for |x| < 700.
inline double exact_exp(double x) {
    constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
    const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
    const double r = (x - n * kLn2High) - n * kLn2Low;
    double sum = 1;
    for (int i = 18; i > 0; --i) sum = 1 + sum * r / i;
    return std::ldexp(sum, static_cast<int>(n));
}

/// ln x for normal x > 0: x = m 2^e with m in [sqrt(1/2), sqrt(2)), then the atanh series of (m - 1) / (m +
/// 1).
inline double exact_log(double x) {
    constexpr double kLn2High = 0x1.62e42fee00000p-1, kLn2Low = 0x1.a39ef35793c76p-33;
    int e = 0;
    double m = std::frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        --e;
    }
    const double t = (m - 1) / (m + 1), z = t * t;
    double sum = 0;
    for (int i = 41; i > 0; i -= 2) sum = sum * z + 1.0 / i;
    return e * kLn2High + (2 * t * sum + e * kLn2Low);
}

}  // namespace tessera
