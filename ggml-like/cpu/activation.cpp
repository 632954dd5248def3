// Chooses the vector function of an activation. A function of one value is that of two with ones, since x * 1
// is x.
#include "ggml-like/cpu/activation.h"

#include <algorithm>

#include "common/expected.h"

namespace tessera::cpu {

void activate(const VecTable& vec, Activation activation, float* x, int64_t n) {
    if (activation == Activation::None) return;
    TSR_CHECK(activation != Activation::ClampedSilu);
    constexpr int64_t kOnes = 256;
    float ones[kOnes];
    std::fill_n(ones, std::min(n, kOnes), 1.0f);
    for (int64_t i = 0; i < n; i += kOnes)
        activate_mul(vec, activation, x + i, ones, x + i, std::min(kOnes, n - i));
}

void activate_mul(const VecTable& vec, Activation activation, const float* gate, const float* up, float* out,
                  int64_t n) {
    switch (activation) {
        case Activation::None:
            for (int64_t i = 0; i < n; ++i) out[i] = gate[i] * up[i];
            break;
        case Activation::Silu:
            vec.silu_mul(gate, up, out, n);
            break;
        case Activation::Gelu:
            vec.gelu_mul(gate, up, out, n);
            break;
        case Activation::ClampedSilu:
            vec.clamped_silu_mul(gate, up, out, n);
            break;
    }
}

}  // namespace tessera::cpu
