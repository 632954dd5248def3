#pragma once
// Rotary position embedding (RoPE) in the device's integers.
#include <cstdint>
#include <span>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// Which values of a head are rotated together: (2i, 2i + 1) or (i, i + n_rot / 2).
enum class RopePairs : uint8_t { Adjacent, Halves };

/// The parameters of a rotation other than its angles.
struct RopeFactors {
    Encoding x, y;
    int32_t n_rot = 0, head_dim = 0;
    RopePairs pairs = RopePairs::Halves;
    Multiplier rotated, kept;
};

/// The reference definition, used by Rope: rotates one head by cosine and sine of each pair [n_rot / 2, 2]. y
/// may be x.
void rotate_head(const RopeFactors& factors, const int16_t* cos_sin, const uint16_t* x, uint16_t* y);

/// Rotates pairs (a, b) of a head by the angle of their frequency and position:
/// a' = a cos - b sin, b' = a sin + b cos. Cosines and sines are 15-bit codes in units of 1 / 32767.
class Rope {
  public:
    /// angles [n_pos, n_rot / 2] in radians, |angle| < 10^6, already with all scalings of the model;
    /// magnitude: of the rotated values, 1 but for some long contexts. Values from n_rot to head_dim are only
    /// requantized. n_rot even, 2 <= n_rot <= head_dim.
    static Result<Rope> create(const std::vector<double>& angles, int64_t n_rot, int64_t head_dim,
                               RopePairs pairs, double magnitude, const Encoding& x, const Encoding& y);

    int64_t n_pos() const {
        return factors_.n_rot ? static_cast<int64_t>(table_.size()) / factors_.n_rot : 0;
    }
    /// One head of head_dim values at position 0 <= pos < n_pos(); y may be x.
    void apply(const uint16_t* x, int64_t pos, uint16_t* y) const {
        rotate_head(factors_, table_.data() + pos * factors_.n_rot, x, y);
    }

    const RopeFactors& factors() const { return factors_; }
    /// [n_pos, n_rot / 2, 2]
    std::span<const int16_t> table() const { return table_; }

  private:
    RopeFactors factors_;
    std::vector<int16_t> table_;
};

}  // namespace tessera::npu
