#pragma once
// Sums, products and functions of single activations in the device's integers.
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
    /// Errors: scales further apart than factors of 30 bits can express.
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

/// Computed from basic arithmetic alone (common/exact_math.h), so it is the same on every machine. Gelu is
/// the tanh form.
double value_of(Function function, double x);

/// Every value of the input in turn: 2^bits entries, the nearest code of y for each.
std::vector<uint16_t> function_table(Function function, const Encoding& x, const Encoding& y);

/// The output of a sigmoid: every code from 0 to 1 - 2^-16.
Encoding sigmoid_encoding();

}  // namespace tessera::npu
