#pragma once
// What each node of a graph computes with: its factors, tables and weights, for the encodings of what it
// reads and writes.
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

/// An encoding for each value of the graph: by its range and the recipe's bits, of what the cache holds 8
/// bits around 128, of probabilities MaskedSoftmax::output(). Errors name a value without a range.
Result<std::vector<Encoding>> encode_values(const Graph& graph, const Recipe& recipe, const Ranges& ranges);

/// The matrices of a model, quantized once for all of its graphs.
class QuantizedMatrices {
  public:
    /// Told of each matrix that has been quantized. Its error becomes that of get().
    using Observer = std::function<Result<void>(const record::Param<Weight>& matrix,
                                                const WeightRecipe& recipe, double sqnr_db)>;
    struct Options {
        ThreadPool* pool = nullptr;  ///< shares the rows of a matrix; outlives this
        bool keep = true;            ///< until this goes, and not until done_with() alone
        Observer observer = nullptr;
    };

    explicit QuantizedMatrices(Recipe recipe) : recipe_(std::move(recipe)) {}
    QuantizedMatrices(Recipe recipe, Options options)
        : recipe_(std::move(recipe)), options_(std::move(options)) {}

    const Recipe& recipe() const { return recipe_; }
    ThreadPool* pool() const { return options_.pool; }
    /// Valid as long as this is, or up to done_with(). The same for any number of threads. Errors name the
    /// tensor: packed for integers, or with weights that are no finite numbers; Cancelled where the pool's
    /// abort flag was seen.
    Result<const QuantizedWeights*> get(const record::Param<Weight>& matrix);
    /// Lets go of it unless all are kept. The next get() quantizes it again.
    void done_with(const record::Param<Weight>& matrix);

  private:
    Recipe recipe_;
    Options options_;
    std::map<std::pair<std::string, int64_t>, QuantizedWeights> matrices_;  // by tensor and its first row
};

/// Of a node; nothing where it moves numbers.
using Prepared = std::variant<std::monostate, Linear, RmsNorm, Rope, DynamicProduct, MaskedSoftmax,
                              std::vector<uint16_t>, Mul, Add>;

/// Rows of a matrix as floats.
std::vector<float> decode_rows(const Weight& w, int64_t row0, int64_t n_rows);

class Preparation {
  public:
    /// All outlive this. encodings: by the graph's values. n_ctx: positions of the cache, of which the graph
    /// may see fewer.
    Preparation(const Graph& graph, std::span<const Encoding> encodings, QuantizedMatrices& matrices,
                int64_t n_ctx);

    /// Errors name the node's result.
    Result<Prepared> operator()(const Node& node);

    /// Who fills a cache, by the cache; null where nobody does.
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
