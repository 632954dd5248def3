#pragma once
// Activations as unsigned integers of 8 or 16 bits: x = (q - zero) * scale, with one scale per tensor.
#include <cstdint>

#include "common/expected.h"

namespace tessera::npu {

struct Encoding {
    int bits = 16;     ///< 8 or 16
    float scale = 1;   ///< finite, > 0
    int32_t zero = 0;  ///< in [0, max()]

    int32_t max() const { return (1 << bits) - 1; }
    int32_t clamp(int64_t q) const { return static_cast<int32_t>(q < 0 ? 0 : q > max() ? max() : q); }
};

/// For values in [min, max], widened to include 0: scale = (max - min) / (2^bits - 1), at least 1e-4 /
/// (2^bits - 1). InvalidArgument for bounds that are not finite, or if min > max.
Result<Encoding> encoding_of_range(float min, float max, int bits);

/// Encoding of keys and values: 8 bits, zero = 128, so that q - 128 is a signed byte in [-127, 127]. largest:
/// maximum of |x|.
Result<Encoding> kv_encoding(float largest);

/// q[i] = clamp(rint(x[i] * (1 / scale)) + zero), ties to even, in float. A NaN becomes `zero`. Returns the
/// number of NaNs.
int64_t quantize(const Encoding& encoding, const float* x, int64_t n, uint16_t* q);
void dequantize(const Encoding& encoding, const uint16_t* q, int64_t n, float* x);

}  // namespace tessera::npu
