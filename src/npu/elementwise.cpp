// Scalar reference definitions of the element-wise vector operations.
#include "src/npu/elementwise.h"

#include <algorithm>
#include <cmath>

#include "common/exact_math.h"

namespace tessera::npu {

double value_of(Function function, double x) {
    const auto sigmoid = [](double t) { return 1 / (1 + exact_exp(std::min(std::max(-t, -700.0), 700.0))); };
    switch (function) {
        case Function::Silu:
            return x * sigmoid(x);
        case Function::Gelu:
            // sqrt(2 / pi)
            return x * sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x));
        case Function::Sigmoid:
            return sigmoid(x);
    }
    return 0;
}

Result<Add> Add::create(const Encoding& a, const Encoding& b, const Encoding& y) {
    Add op;
    Factors& f = op.factors_;
    f = {.a = a, .b = b, .y = y};
    // The larger factor gets 24 bits and determines the shift of both; 2^17 * 2^31 fits in 64 bits.
    const double scale_y = static_cast<double>(y.scale);
    const double fa = static_cast<double>(a.scale) / scale_y, fb = static_cast<double>(b.scale) / scale_y;
    TSR_TRY(const Multiplier larger, make_multiplier(std::max(fa, fb), a.max() + b.max()));
    f.shift = larger.shift;
    f.mult_a = std::llrint(std::ldexp(fa, f.shift));
    f.mult_b = std::llrint(std::ldexp(fb, f.shift));
    return op;
}

void Add::apply(const Factors& f, const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y) {
    for (int64_t i = 0; i < n; ++i) {
        const int64_t sum = (a[i] - f.a.zero) * f.mult_a + (b[i] - f.b.zero) * f.mult_b;
        y[i] = static_cast<uint16_t>(f.y.clamp(f.y.zero + round_shift(sum, f.shift)));
    }
}

Result<Mul> Mul::create(const Encoding& a, const Encoding& b, const Encoding& y) {
    Mul op;
    op.factors_ = {.a = a, .b = b, .y = y, .product = {}};
    const double factor =
        static_cast<double>(a.scale) * static_cast<double>(b.scale) / static_cast<double>(y.scale);
    TSR_TRY(op.factors_.product, make_multiplier(factor, int64_t{a.max()} * b.max()));
    return op;
}

void Mul::apply(const Factors& f, const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y) {
    for (int64_t i = 0; i < n; ++i) {
        const int64_t both = int64_t{a[i] - f.a.zero} * (b[i] - f.b.zero);
        y[i] = static_cast<uint16_t>(f.y.clamp(f.y.zero + f.product.apply(both)));
    }
}

std::vector<uint16_t> function_table(Function function, const Encoding& x, const Encoding& y) {
    std::vector<uint16_t> table(static_cast<size_t>(x.max()) + 1);
    for (int32_t q = 0; q <= x.max(); ++q) {
        const double value = value_of(function, (q - x.zero) * static_cast<double>(x.scale));
        const double code = std::rint(value / static_cast<double>(y.scale)) + y.zero;
        const double held = std::min(std::max(code, 0.0), static_cast<double>(y.max()));
        table[static_cast<size_t>(q)] = static_cast<uint16_t>(held);
    }
    return table;
}

Encoding sigmoid_encoding() { return {.bits = 16, .scale = 0x1p-16f, .zero = 0}; }

}  // namespace tessera::npu
