#pragma once
// Prepares the factors, tables and weights of each node of a graph for the encodings of its inputs and
// outputs.
#include <functional>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/threads.h"
#include "src/npu/attention.h"
#include "src/npu/graph.h"
#include "src/npu/linear.h"
#include "src/npu/norm.h"
#include "src/npu/ranges.h"
#include "src/npu/recipe.h"
#include "src/npu/rope.h"

namespace tessera::npu {

/// An encoding for each value of the graph: from its range and the recipe's bits; kv_encoding() for keys and
/// values; MaskedSoftmax::output() for probabilities. Errors name a value without a range.
Result<std::vector<Encoding>> encode_values(const Graph& graph, const Recipe& recipe, const Ranges& ranges);

/// The matrices of a model, quantized once for all of its graphs.
class QuantizedMatrices {
  public:
    /// Called after each matrix that has been quantized. Its error is returned by get().
    using Observer = std::function<Result<void>(const record::Param<Weight>& matrix,
                                                const WeightRecipe& recipe, double sqnr_db)>;
    struct Options {
        ThreadPool* pool = nullptr;  ///< threads share the rows of a matrix; must outlive this object
        bool keep = true;            ///< keep matrices after done_with()
        Observer observer = nullptr;
    };

    explicit QuantizedMatrices(Recipe recipe) : recipe_(std::move(recipe)) {}
    QuantizedMatrices(Recipe recipe, Options options)
        : recipe_(std::move(recipe)), options_(std::move(options)) {}

    const Recipe& recipe() const { return recipe_; }
    ThreadPool* pool() const { return options_.pool; }
    /// The quantized matrix, valid as long as this object, or until done_with(). The same for any number of
    /// threads. Errors name the tensor: packed for int8, or with weights that are not finite; Cancelled if
    /// the pool's abort flag is set.
    Result<const QuantizedWeights*> get(const record::Param<Weight>& matrix);
    /// Releases the matrix unless `keep` is set. The next get() quantizes it again.
    void done_with(const record::Param<Weight>& matrix);

  private:
    Recipe recipe_;
    Options options_;
    std::map<std::pair<std::string, int64_t>, QuantizedWeights> matrices_;  // by tensor and first row
};

/// Prepared data of a node; monostate for nodes that only move values.
using Prepared = std::variant<std::monostate, Linear, RmsNorm, Rope, DynamicProduct, MaskedSoftmax,
                              std::vector<uint16_t>, Mul, Add>;

/// Decodes rows of a matrix to floats.
std::vector<float> decode_rows(const Weight& w, int64_t row0, int64_t n_rows);

class Preparation {
  public:
    /// All arguments must outlive this object. encodings: indexed by the graph's values. n_ctx: positions of
    /// the cache; the graph may use fewer.
    Preparation(const Graph& graph, std::span<const Encoding> encodings, QuantizedMatrices& matrices,
                int64_t n_ctx);

    /// Errors name the node's result.
    Result<Prepared> operator()(const Node& node);

    /// The node that writes each cache, indexed by cache; null if none does.
    std::span<const AppendNode* const> appends() const { return appends_; }

  private:
    struct Make;

    const Graph& graph_;
    std::span<const Encoding> encodings_;
    QuantizedMatrices& matrices_;
    int64_t n_ctx_;
    std::vector<const AppendNode*> appends_;
};

}  // namespace tessera::npu
