#pragma once
// Runs a graph in float: the reference that the integers approximate, and the source of value ranges.
#include <functional>
#include <span>
#include <vector>

#include "common/arena.h"
#include "ggml-like/backend.h"
#include "src/npu/graph.h"

namespace tessera::npu {

class FloatRun {
  public:
    /// Receives numbers of a value that are neither padding nor masked.
    using Observer = std::function<void(GraphValueId, std::span<const float>)>;

    /// The graph and the backend, which computes the products and must be sized for the program's n_tok, must
    /// outlive this object. Allocates all memory of a run. Errors: OutOfMemory, and weights that are packed
    /// for int8.
    static Result<FloatRun> create(const Graph& graph, Backend& backend);

    /// Inputs and outputs of the graph are rows [n_valid, dim]. `observe` may be empty.
    void run(const Pass& pass, std::span<const float* const> inputs, std::span<float* const> outputs,
             const Observer& observe);

    /// For a whole program: 1 to n_tok further tokens since create() or restart(), within n_ctx.
    void run(std::span<const int32_t> tokens, const Observer& observe);
    void restart() { n_past_ = 0; }

    /// Rows of a value in the latest run. Valid for the output; other values may have been overwritten by a
    /// later value in the same slot.
    std::span<const float> rows(GraphValueId id);

  private:
    struct Step;
    /// Keys and values, [n_ctx, n_head_kv * head_dim].
    struct CacheRows {
        Buffer k, v;
    };
    FloatRun(const Graph& graph, Backend& backend) : graph_(&graph), backend_(&backend) {}
    float* slot(GraphValueId id);
    void run_nodes(const Pass& pass, const Observer& observe);

    const Graph* graph_;
    Backend* backend_;
    std::vector<Buffer> slots_;
    std::vector<CacheRows> caches_;
    std::vector<int32_t> tokens_;  // [n_tok] with padding
    Pass pass_;
    int64_t n_past_ = 0;
};

}  // namespace tessera::npu
