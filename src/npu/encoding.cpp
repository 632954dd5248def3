// Conversion between floats and the device's integers, at the inputs and outputs of segments.
#include "src/npu/encoding.h"

#include <algorithm>
#include <cmath>

namespace tessera::npu {

Result<Encoding> encoding_of_range(float min, float max, int bits) {
    if (!std::isfinite(min) || !std::isfinite(max) || min > max)
        return fail(
            ErrorCode::InvalidArgument,
            "range of an activation: expected two finite numbers, the smaller one first, found %g and %g",
            static_cast<double>(min), static_cast<double>(max));
    Encoding encoding{.bits = bits};
    const double low = std::min(0.0, static_cast<double>(min)),
                 high = std::max(0.0, static_cast<double>(max));
    const double width = std::min(std::max(high - low, 1e-4), 3e38);
    encoding.scale = static_cast<float>(width / encoding.max());
    encoding.zero = encoding.clamp(std::llrint(-low / static_cast<double>(encoding.scale)));
    return encoding;
}

Result<Encoding> kv_encoding(float largest) {
    if (!std::isfinite(largest) || largest < 0)
        return fail(ErrorCode::InvalidArgument,
                    "range of keys or values: expected a finite number of at least 0, found %g",
                    static_cast<double>(largest));
    return Encoding{.bits = 8, .scale = std::max(largest, 1e-4f) / 127.0f, .zero = 128};
}

int64_t quantize(const Encoding& encoding, const float* x, int64_t n, uint16_t* q) {
    const float inverse = 1.0f / encoding.scale, zero = static_cast<float>(encoding.zero);
    const float low = -zero, high = static_cast<float>(encoding.max()) - zero;
    int64_t n_nan = 0;
    for (int64_t i = 0; i < n; ++i) {
        const bool is_nan = std::isnan(x[i]);
        n_nan += is_nan;
        // Clamped before the conversion to an integer, which could overflow.
        const float steps = is_nan ? 0.0f : std::min(std::max(std::rint(x[i] * inverse), low), high);
        q[i] = static_cast<uint16_t>(static_cast<int32_t>(steps) + encoding.zero);
    }
    return n_nan;
}

void dequantize(const Encoding& encoding, const uint16_t* q, int64_t n, float* x) {
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(q[i] - encoding.zero) * encoding.scale;
}

}  // namespace tessera::npu
