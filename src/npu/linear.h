#pragma once
// y = W x + b in the device's integers, and its definition: what every tiled, vectorized or scheduled form
// has to equal bit for bit.
#include <vector>

#include "common/threads.h"
#include "src/npu/encoding.h"
#include "src/npu/requant.h"
#include "src/npu/weights.h"

namespace tessera::npu {

/// The value that is subtracted from an activation before it is multiplied, so that 16 bits fit a signed
/// halfword. The zero point's part is in Requant::bias.
constexpr int32_t centre(int bits) { return bits == 16 ? 32768 : 0; }
/// The same as far as biases know of it.
constexpr int32_t centre_of(OutputMode mode, int bits) { return mode == OutputMode::Hmx ? 0 : centre(bits); }

/// One Linear with all that depends on its weights and encodings. Refers to the weights, which must outlive
/// it.
struct Linear {
    const QuantizedWeights* weights = nullptr;
    Encoding input, output;
    std::vector<Requant> requant;  ///< [n_out]; bias = b / (s_x S) + (centre - zero_x) sum_k w8
    int64_t n_reduced = 0;         ///< outputs whose factor has fewer bits than it might, to stay within 64
    OutputMode mode = OutputMode::Exact;
    std::vector<int32_t> weight_sums = {};  ///< [n_out] sum_k w8 where the mode is Hmx, whose centre is 0
};

/// bias: [n_out] floats or null. Unsupported where an exact sum might leave its 32-bit half or 64 bits
/// altogether, for biases that are no finite numbers, and for factors out of range; errors name the output.
/// The pool's threads, if there is one, share the outputs.
Result<Linear> make_linear(const QuantizedWeights& weights, const float* bias, const Encoding& input,
                           const Encoding& output, OutputMode mode = OutputMode::Exact,
                           ThreadPool* pool = nullptr);

/// y[m, n] = clamp(zero_y + RS((sum_k (x[m, k] - centre) * w8[n, k] + bias[n]) * mult[n], shift[n])), which
/// is the design's 256 H + L + eb. In the mode Hmx 16-bit activations are multiplied byte by byte, and
/// hmx_sum() takes the place of the sum. x [n_rows, n_in], y [n_rows, n_out].
void linear_reference(const Linear& op, const uint16_t* x, int64_t n_rows, uint16_t* y);

}  // namespace tessera::npu
