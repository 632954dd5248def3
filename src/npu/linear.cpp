// The integer Linear: computes factors and proves at compile time that nothing overflows; the plain loop
// defines the result. The tiled implementation is in emulator.cpp.
#include "src/npu/linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "src/npu/share_work.h"

namespace tessera::npu {

namespace {

struct RowSums {
    int64_t sum = 0, magnitude = 0;
};

RowSums row_sums(const QuantizedWeights& weights, int64_t output) {
    RowSums sums;
    const int64_t n_in = weights.n_in, block = weights.recipe.has_blocks() ? weights.recipe.block : n_in;
    for (int64_t first = 0; first < n_in; first += block) {
        const int8_t* q = weights.q.data() + output * n_in + first;
        int32_t sum = 0, magnitude = 0;
        for (int64_t i = 0; i < std::min(block, n_in - first); ++i) {
            sum += q[i];
            magnitude += std::abs(int32_t{q[i]});
        }
        const int32_t mult = weights.multiplier(output, first);
        sums.sum += int64_t{sum} * mult;
        sums.magnitude += int64_t{magnitude} * std::abs(mult);
    }
    return sums;
}

/// The unit of an output's sums. If all weights are 0, only the bias remains, and any unit finer than the
/// output's is suitable.
double unit_of(const QuantizedWeights& weights, int64_t output, const Encoding& in, const Encoding& out) {
    const float scale = weights.scale[static_cast<size_t>(output)];
    return scale > 0 ? static_cast<double>(in.scale) * static_cast<double>(scale)
                     : static_cast<double>(out.scale) / 256;
}

Result<Requant> requant_of(const RowSums& sums, double unit, float bias, OutputMode mode, const Encoding& in,
                           const Encoding& out, int64_t& n_reduced) {
    // The matrix unit keeps two 32-bit sums, for high and low bytes.
    if (255 * sums.magnitude > std::numeric_limits<int32_t>::max())
        return fail(ErrorCode::Unsupported, "a sum of up to %lld exceeds the 32 bits of the matrix unit",
                    static_cast<long long>(255 * sums.magnitude));
    const double bias_units = std::rint(static_cast<double>(bias) / unit);
    if (!(std::fabs(bias_units) < 0x1p52))
        return fail(ErrorCode::Unsupported, "the bias %g is not finite, or too large relative to its weights",
                    static_cast<double>(bias));
    const int64_t whole = static_cast<int64_t>(bias_units) + (centre_of(mode, in.bits) - in.zero) * sums.sum;
    const int64_t bound = int64_t{in.max()} * sums.magnitude + std::abs(whole);
    TSR_TRY(const Multiplier m,
            make_output_multiplier(mode, unit / static_cast<double>(out.scale), bound, in.bits));
    n_reduced += m.lost_bits > 0;
    return Requant{whole, m.mult, m.shift};
}

}  // namespace

Result<Linear> make_linear(const QuantizedWeights& weights, const float* bias, const Encoding& input,
                           const Encoding& output, OutputMode mode, ThreadPool* pool) {
    Linear op{.weights = &weights, .input = input, .output = output, .requant = {}, .mode = mode};
    const auto n_out = static_cast<size_t>(weights.n_out);
    std::vector<RowSums> sums(n_out);
    TSR_TRY_VOID(share_work(pool, weights.n_out,
                            [&](int64_t o) { sums[static_cast<size_t>(o)] = row_sums(weights, o); }));
    op.requant.reserve(n_out);
    for (int64_t o = 0; o < weights.n_out; ++o) {
        const RowSums& of_row = sums[static_cast<size_t>(o)];
        auto requant = requant_of(of_row, unit_of(weights, o, input, output), bias ? bias[o] : 0.0f, mode,
                                  input, output, op.n_reduced);
        if (!requant) return fail_in("output " + std::to_string(o), std::move(requant.error()));
        op.requant.push_back(*requant);
        if (mode == OutputMode::Hmx) op.weight_sums.push_back(static_cast<int32_t>(of_row.sum));
    }
    return op;
}

void linear_reference(const Linear& op, const uint16_t* x, int64_t n_rows, uint16_t* y) {
    const int64_t n_in = op.weights->n_in, n_out = op.weights->n_out;
    std::vector<int32_t> w8(static_cast<size_t>(n_in));
    for (int64_t n = 0; n < n_out; ++n) {
        for (int64_t k = 0; k < n_in; ++k) w8[static_cast<size_t>(k)] = op.weights->w8(n, k);
        const Requant& r = op.requant[static_cast<size_t>(n)];
        const bool by_byte = op.mode == OutputMode::Hmx && op.input.bits == 16;
        for (int64_t m = 0; m < n_rows; ++m) {
            int64_t sum = 0, low = 0;
            for (int64_t k = 0; k < n_in; ++k) {
                const int32_t code = x[m * n_in + k], w = w8[static_cast<size_t>(k)];
                sum += (by_byte ? code >> 8 : code - centre_of(op.mode, op.input.bits)) * w;
                low += by_byte ? (code & 255) * w : 0;
            }
            const int64_t whole = by_byte ? hmx_sum(sum, low, r.bias) : sum + r.bias;
            const int64_t scaled = round_shift(whole * r.mult, r.shift);
            y[m * n_out + n] = static_cast<uint16_t>(op.output.clamp(op.output.zero + scaled));
        }
    }
}

}  // namespace tessera::npu
