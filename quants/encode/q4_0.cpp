// One-pass encoder of Q4_0: codes -8 .. 7, so the weight of largest magnitude gets code -8 whatever its sign
// (d = -x / 8), and each other weight the nearest code of the half that decoding multiplies by. It writes the
// KV cache; files are written by the encoder with a search.
#include <algorithm>
#include <cmath>

#include "quants/encode/encode.h"

namespace tessera::quants {

void encode(const float* x, BlockQ4_0& b) {
    float extreme = 0;
    bool finite = true;
    for (int e = 0; e < b.kWeights; e++) {
        if (std::fabs(x[e]) > std::fabs(extreme)) extreme = x[e];
        finite = finite && std::isfinite(x[e]);
    }
    const uint16_t half = finite ? f32_to_f16(std::clamp(extreme / -8, -kMaxHalf, kMaxHalf)) : kHalfNan;
    store_u16(half, b.d);
    const float d = f16_to_f32(half);
    int codes[BlockQ4_0::kWeights];
    for (int e = 0; e < b.kWeights; e++) {
        const float q = finite && d != 0 ? std::clamp(x[e] / d, -8.0f, 7.0f) : 0.0f;
        codes[e] = static_cast<int>(std::lrint(q)) + 8;
    }
    for (int i = 0; i < 16; i++) b.qs[i] = static_cast<uint8_t>(codes[i] | codes[i + 16] << 4);
}

}  // namespace tessera::quants
