#pragma once
// y = W x + b in the device's integers, with its scalar reference definition, which tiled, vectorized and
// scheduled implementations must match bit for bit.
#include <vector>

#include "common/threads.h"
#include "src/npu/encoding.h"
#include "src/npu/requant.h"
#include "src/npu/weights.h"

namespace tessera::npu {

/// The value subtracted from an activation before multiplication, so that 16 bits fit a signed 16-bit
/// integer. The contribution of the zero point is in Requant::bias.
constexpr int32_t centre(int bits) { return bits == 16 ? 32768 : 0; }
/// The same for the computation of biases.
constexpr int32_t centre_of(OutputMode mode, int bits) { return mode == OutputMode::Hmx ? 0 : centre(bits); }

/// A Linear with everything derived from its weights and encodings. Refers to the weights, which must outlive
/// it.
struct Linear {
    const QuantizedWeights* weights = nullptr;
    Encoding input, output;
    std::vector<Requant> requant;  ///< [n_out]; bias = b / (s_x S) + (centre - zero_x) sum_k w8
    int64_t n_reduced = 0;         ///< outputs whose factor has fewer bits so that products fit in 64
    OutputMode mode = OutputMode::Exact;
    std::vector<int32_t> weight_sums = {};  ///< [n_out] sum_k w8 in Hmx mode, whose centre is 0
};

/// bias: [n_out] floats or null. Unsupported if an exact sum could exceed its 32-bit half or 64 bits in
/// total, for biases that are not finite, and for factors out of range; errors name the output. The threads
/// of `pool`, if given, share the outputs.
Result<Linear> make_linear(const QuantizedWeights& weights, const float* bias, const Encoding& input,
                           const Encoding& output, OutputMode mode = OutputMode::Exact,
                           ThreadPool* pool = nullptr);

/// y[m, n] = clamp(zero_y + RS((sum_k (x[m, k] - centre) * w8[n, k] + bias[n]) * mult[n], shift[n])). In Hmx
/// mode, 16-bit activations are multiplied byte by byte, and hmx_sum() replaces the sum. x [n_rows, n_in], y
/// [n_rows, n_out].
void linear_reference(const Linear& op, const uint16_t* x, int64_t n_rows, uint16_t* y);

}  // namespace tessera::npu
