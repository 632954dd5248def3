#pragma once
// Chooses a type for every tensor of a file.
#include <optional>
#include <string>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/convert/quantize_importance.h"
#include "src/convert/quantize_mixture.h"

namespace tessera::convert {

/// Sets the type of tensors in whose name the pattern (common/pattern.h) is found.
struct TypeOverride {
    std::string pattern;
    Type type;
};
/// Parses "PATTERN=TYPE".
Result<TypeOverride> parse_type_override(std::string_view argument);

/// Whether mixtures choose the type of a tensor of this name and number of dimensions: true for matrices,
/// except small sensitive ones.
bool is_quantizable(std::string_view name, int n_dims);

struct QuantizePlanOptions {
    const Mixture* mixture = nullptr;
    bool pure = false;  ///< the base type for all matrices, embeddings and output included
    std::optional<Type> output_type, embedding_type;
    std::vector<TypeOverride> overrides;  ///< the first match is used and overrides everything else
    bool allow_requantize = false;        ///< allows weights that are already quantized
    bool keep_quantized = false;          ///< keeps already quantized weights, unless allow_requantize is set
    const Importance* importance = nullptr;
};

struct PlannedTensor {
    const gguf::TensorInfo* from;
    Type to;
    uint64_t n_bytes;
    Type wished;  ///< the wanted type; `to` differs if the rows are not a multiple of its block
    /// One factor per weight of a row, for each expert; empty if there is none.
    std::span<const float> importance;

    bool is_converted() const { return to != from->type; }
};

/// Plans the tensors of the file in its order. Errors: an invalid pattern, a type without an encoder,
/// quantized weights without allow_requantize, an importance matrix of other shapes, a packed container.
Result<std::vector<PlannedTensor>> plan_quantization(const gguf::File& file,
                                                     const QuantizePlanOptions& options);

}  // namespace tessera::convert
