#pragma once
// From a file and what the caller wants to a type for every tensor.
#include <optional>
#include <string>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/convert/quantize_importance.h"
#include "src/convert/quantize_mixture.h"

namespace tessera::convert {

/// A tensor whose name the pattern (common/pattern.h) is found in gets the type.
struct TypeOverride {
    std::string pattern;
    Type type;
};
/// "PATTERN=TYPE".
Result<TypeOverride> parse_type_override(std::string_view argument);

/// Whether mixtures choose the type of a tensor of this name and number of dimensions: matrices but for
/// small ones that decide much.
bool is_quantizable(std::string_view name, int n_dims);

struct QuantizePlanOptions {
    const Mixture* mixture = nullptr;
    bool pure = false;  ///< the base type for all matrices, embeddings and output included
    std::optional<Type> output_type, embedding_type;
    std::vector<TypeOverride> overrides;  ///< the first that matches counts, before all else
    bool allow_requantize = false;        ///< weights that are quantized already
    bool keep_quantized = false;          ///< those stay as they are, unless allow_requantize is set
    const Importance* importance = nullptr;
};

struct PlannedTensor {
    const gguf::TensorInfo* from;
    Type to;
    uint64_t n_bytes;
    Type wished;  ///< `to`, unless the rows are no multiple of its block
    /// Per weight of a row, for each expert; empty where there is none.
    std::span<const float> importance;

    bool is_converted() const { return to != from->type; }
};

/// The tensors of the file in its order. Errors: a pattern that is none, a type without an encoder, quantized
/// weights without allow_requantize, an importance matrix of other shapes, a packed container.
Result<std::vector<PlannedTensor>> plan_quantization(const gguf::File& file,
                                                     const QuantizePlanOptions& options);

}  // namespace tessera::convert
