#pragma once
// Weights as the matrix unit multiplies them: signed bytes with one float scale an output. Weights of 4 bits
// (LPBQ, low-power blockwise quantization) have besides a small integer for each block of inputs, and the
// byte is the product of the two.
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
    int64_t block = 0;  ///< inputs that share m: 16, 32 or 64; 0 for Int8

    bool has_blocks() const { return kind != Kind::Int8; }
    int64_t n_blocks(int64_t n_in) const { return has_blocks() ? (n_in + block - 1) / block : 0; }
    /// "int8", "lpbq32", "signed-lpbq32".
    std::string name() const;
};

/// The recipe of that name, or InvalidArgument that lists the names.
Result<WeightRecipe> parse_weight_recipe(std::string_view name);
/// Every recipe, for reports and tests.
std::span<const WeightRecipe> weight_recipes();

/// Sums of squares: of weights, and of what is missing from them.
struct SignalToNoise {
    double signal = 0, noise = 0;

    SignalToNoise& operator+=(const SignalToNoise& other);
    /// 10 log10(signal / noise); infinite where nothing is missing.
    double db() const;
};

/// A matrix [n_out, n_in]. Blocks run along the inputs; the last one of a row may be shorter.
struct QuantizedWeights {
    WeightRecipe recipe;
    int64_t n_out = 0, n_in = 0;
    std::vector<int8_t> q;           ///< [n_out, n_in]
    std::vector<int8_t> block_mult;  ///< [n_out, n_blocks], empty for Int8
    std::vector<float> scale;        ///< [n_out]; 0 where all weights of an output are

    /// The byte that is multiplied, |w8| <= 127.
    int w8(int64_t output, int64_t input) const {
        return q[static_cast<size_t>(output * n_in + input)] * multiplier(output, input);
    }
    /// That of the block which the input is in; 1 where there are none.
    int multiplier(int64_t output, int64_t input) const {
        if (!recipe.has_blocks()) return 1;
        const int64_t n_blocks = recipe.n_blocks(n_in);
        return block_mult[static_cast<size_t>(output * n_blocks + input / recipe.block)];
    }
    float value(int64_t output, int64_t input) const {
        return static_cast<float>(w8(output, input)) * scale[static_cast<size_t>(output)];
    }
    /// Against row `output` of the floats that this was made of, w [n_in].
    SignalToNoise row_error(const float* w, int64_t output) const;
    /// Against all of them, [n_out, n_in].
    double sqnr_db(const float* w) const;
};

/// A matrix of zeros.
QuantizedWeights empty_weights(const WeightRecipe& recipe, int64_t n_out, int64_t n_in);

/// Fills row `output` with w [n_in], all finite, or Malformed with the place of the first that is not. Rows
/// are independent of each other: threads may share them.
Result<void> quantize_row(const float* w, int64_t output, QuantizedWeights& to);

/// All rows, w [n_out, n_in].
Result<QuantizedWeights> quantize_weights(const WeightRecipe& recipe, const float* w, int64_t n_out,
                                          int64_t n_in);

}  // namespace tessera::npu
