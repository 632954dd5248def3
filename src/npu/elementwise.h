#pragma once
// Element-wise sums, products and functions in the device's integer arithmetic.
#include <cstdint>
#include <span>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// y = a + b: clamp(zero_y + RS((qa - zero_a) * mult_a + (qb - zero_b) * mult_b, shift)), one shift for both.
class Add {
  public:
    /// All of it.
    struct Factors {
        Encoding a, b, y;
        int64_t mult_a = 0, mult_b = 0;
        int32_t shift = 1;
    };
    /// Errors: scales whose ratio 30-bit factors cannot express.
    static Result<Add> create(const Encoding& a, const Encoding& b, const Encoding& y);
    /// n values each; y may be a or b.
    void apply(const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y) const {
        apply(factors_, a, b, n, y);
    }
    static void apply(const Factors& factors, const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y);

    const Factors& factors() const { return factors_; }

  private:
    Factors factors_;
};

/// y = a * b: clamp(zero_y + RS((qa - zero_a) * (qb - zero_b) * mult, shift)).
class Mul {
  public:
    /// All of it.
    struct Factors {
        Encoding a, b, y;
        Multiplier product;
    };
    static Result<Mul> create(const Encoding& a, const Encoding& b, const Encoding& y);
    void apply(const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y) const {
        apply(factors_, a, b, n, y);
    }
    static void apply(const Factors& factors, const uint16_t* a, const uint16_t* b, int64_t n, uint16_t* y);

    const Factors& factors() const { return factors_; }

  private:
    Factors factors_;
};

enum class Function : uint8_t { Silu, Gelu, Sigmoid };

/// Computed with basic arithmetic only (common/exact_math.h), so the result is the same on every machine.
/// Gelu is the tanh approximation.
double value_of(Function function, double x);

/// A table of 2^bits entries: for each input code the nearest code of y.
std::vector<uint16_t> function_table(Function function, const Encoding& x, const Encoding& y);

/// Encoding of a sigmoid's output: codes for 0 to 1 - 2^-16.
Encoding sigmoid_encoding();

}  // namespace tessera::npu
