#pragma once
// Random numbers for the tests of the device's integers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/rng.h"
#include "src/npu/encoding.h"

namespace tessera::npu::test {

/// Seeded draws of the kinds that the tests need.
class Draw {
  public:
    explicit Draw(uint64_t seed) : rng_(seed) {}

    /// An integer from low to high, both included.
    int64_t integer(int64_t low, int64_t high) {
        return low + static_cast<int64_t>(rng_.next_u64() % static_cast<uint64_t>(high - low + 1));
    }
    double uniform() { return rng_.next_double(); }
    float gauss() {
        return static_cast<float>(std::sqrt(-2 * std::log(1 - uniform())) *
                                  std::cos(6.283185307179586 * uniform()));
    }
    float laplace() {
        const double u = uniform() - 0.5;
        return static_cast<float>((u < 0 ? 1 : -1) * std::log(1 - 2 * std::fabs(u)));
    }
    std::vector<float> gauss(int64_t n) {
        std::vector<float> x(static_cast<size_t>(n));
        for (float& v : x) v = gauss();
        return x;
    }
    /// Any codes of the encoding.
    std::vector<uint16_t> codes(const Encoding& encoding, int64_t n) {
        std::vector<uint16_t> q(static_cast<size_t>(n));
        for (uint16_t& v : q) v = static_cast<uint16_t>(integer(0, encoding.max()));
        return q;
    }
    /// An encoding as a tensor of activations might have it.
    Encoding encoding(int bits) {
        const double width = std::exp(6 * uniform() - 2);
        const double low = -width * uniform();
        return *encoding_of_range(static_cast<float>(low), static_cast<float>(low + width), bits);
    }

  private:
    Rng rng_;
};

inline double real(const Encoding& encoding, int64_t q) {
    return static_cast<double>(q - encoding.zero) * static_cast<double>(encoding.scale);
}

/// The distance in steps of y between the code q and the real number clamped to y's range.
inline double steps_off(const Encoding& y, int64_t q, double exact) {
    const double code = exact / static_cast<double>(y.scale) + y.zero;
    return std::fabs(std::min(std::max(code, 0.0), static_cast<double>(y.max())) - static_cast<double>(q));
}

}  // namespace tessera::npu::test
