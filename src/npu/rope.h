#pragma once
// Rotary positions in the device's integers.
#include <cstdint>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/requant.h"

namespace tessera::npu {

/// Rotates pairs (a, b) of a head by the angle of their frequency and position:
/// a' = a cos - b sin, b' = a sin + b cos. Cosines and sines are 15-bit codes in units of 1 / 32767.
class Rope {
  public:
    enum class Pairs : uint8_t { Adjacent, Halves };  ///< (2i, 2i + 1) or (i, i + n_rot / 2)

    /// angles [n_pos, n_rot / 2] in radians, |angle| < 10^6, already with all scalings of the model;
    /// magnitude: of the rotated values, 1 but for some long contexts. Values from n_rot to head_dim are only
    /// requantized. n_rot even, 2 <= n_rot <= head_dim.
    static Result<Rope> create(const std::vector<double>& angles, int64_t n_rot, int64_t head_dim,
                               Pairs pairs, double magnitude, const Encoding& x, const Encoding& y);

    int64_t n_pos() const { return n_rot_ ? static_cast<int64_t>(table_.size()) / n_rot_ : 0; }
    /// One head of head_dim values at position 0 <= pos < n_pos(); y may be x.
    void apply(const uint16_t* x, int64_t pos, uint16_t* y) const;

  private:
    Encoding x_, y_;
    int64_t n_rot_ = 0, head_dim_ = 0;
    Pairs pairs_ = Pairs::Halves;
    std::vector<int16_t> table_;  // [n_pos, n_rot / 2, 2]
    Multiplier rotated_, kept_;
};

}  // namespace tessera::npu
