#pragma once
// Weights of the matrix unit: signed bytes with one float scale per output. 4-bit weights (LPBQ, low-power
// blockwise quantization) also have a small integer multiplier per block of inputs; the byte is the product
// of the two.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::npu {

struct WeightRecipe {
    enum class Kind : uint8_t {
        Int8,        ///< w8 in [-127, 127], w = w8 * scale[output]
        Lpbq,        ///< w8 = q * m, q in [-7, 7], m in [1, 16]: w = w8 * scale[output]
        SignedLpbq,  ///< the same with q in [-8, 7], m in +-[1, 15]: for sources that use -8, as Q4_0 does
    };
    Kind kind = Kind::Int8;
    int64_t block = 0;  ///< inputs that share a multiplier m: 16, 32 or 64; 0 for Int8

    bool has_blocks() const { return kind != Kind::Int8; }
    int64_t n_blocks(int64_t n_in) const { return has_blocks() ? (n_in + block - 1) / block : 0; }
    /// "int8", "lpbq32", "signed-lpbq32".
    std::string name() const;
};

/// The recipe of that name, or InvalidArgument that lists the names.
Result<WeightRecipe> parse_weight_recipe(std::string_view name);
/// Every recipe, for reports and tests.
std::span<const WeightRecipe> weight_recipes();

/// Sums of squares of the weights and of their quantization errors.
struct SignalToNoise {
    double signal = 0, noise = 0;

    SignalToNoise& operator+=(const SignalToNoise& other);
    /// 10 log10(signal / noise); infinite without error.
    double db() const;
};

/// A matrix [n_out, n_in]. Blocks run along the inputs; the last one of a row may be shorter.
struct QuantizedWeights {
    WeightRecipe recipe;
    int64_t n_out = 0, n_in = 0;
    std::vector<int8_t> q;           ///< [n_out, n_in]
    std::vector<int8_t> block_mult;  ///< [n_out, n_blocks], empty for Int8
    std::vector<float> scale;        ///< [n_out]; 0 if all weights of the output are 0

    /// The effective weight byte, |w8| <= 127.
    int w8(int64_t output, int64_t input) const {
        return q[static_cast<size_t>(output * n_in + input)] * multiplier(output, input);
    }
    /// The multiplier of the input's block; 1 for Int8.
    int multiplier(int64_t output, int64_t input) const {
        if (!recipe.has_blocks()) return 1;
        const int64_t n_blocks = recipe.n_blocks(n_in);
        return block_mult[static_cast<size_t>(output * n_blocks + input / recipe.block)];
    }
    float value(int64_t output, int64_t input) const {
        return static_cast<float>(w8(output, input)) * scale[static_cast<size_t>(output)];
    }
    /// Error of row `output` against the original floats w [n_in].
    SignalToNoise row_error(const float* w, int64_t output) const;
    /// Signal-to-quantization-noise ratio against the original floats [n_out, n_in].
    double sqnr_db(const float* w) const;
};

/// A matrix whose weights are all 0.
QuantizedWeights empty_weights(const WeightRecipe& recipe, int64_t n_out, int64_t n_in);

/// Quantizes w [n_in] into row `output`. Malformed names the first weight that is not finite. Rows are
/// independent, so threads may share them.
Result<void> quantize_row(const float* w, int64_t output, QuantizedWeights& to);

/// Quantizes all rows of w [n_out, n_in].
Result<QuantizedWeights> quantize_weights(const WeightRecipe& recipe, const float* w, int64_t n_out,
                                          int64_t n_in);

}  // namespace tessera::npu
