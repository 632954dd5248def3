// One-pass encoder of Q8_0: d = largest magnitude / 127 rounded up to half, then each weight to the nearest
// multiple of d. Rounding d up keeps the largest weight within 127 steps, and dividing by the rounded d, the
// one that decoding multiplies by, bounds every error by d / 2.
#include <algorithm>
#include <cmath>

#include "quants/encode/encode.h"

namespace tessera::quants {

namespace {

/// The smallest half that is no less than v; 0 <= v <= kMaxHalf.
uint16_t half_at_least(float v) {
    const uint16_t nearest = f32_to_f16(v);
    return static_cast<uint16_t>(f16_to_f32(nearest) < v ? nearest + 1 : nearest);
}

}  // namespace

void encode(const float* x, BlockQ8_0& b) {
    float largest = 0;
    bool finite = true;
    for (int e = 0; e < b.kWeights; e++) {
        largest = std::max(largest, std::fabs(x[e]));
        finite = finite && std::isfinite(x[e]);
    }
    const uint16_t half = finite ? half_at_least(std::min(largest / 127, kMaxHalf)) : kHalfNan;
    store_u16(half, b.d);
    const float d = f16_to_f32(half);
    for (int e = 0; e < b.kWeights; e++) {
        const float q = finite && d > 0 ? std::clamp(x[e] / d, -127.0f, 127.0f) : 0.0f;
        b.qs[e] = static_cast<int8_t>(std::lrint(q));
    }
}

}  // namespace tessera::quants
