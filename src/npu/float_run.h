#pragma once
// A graph in floats: what its integers approximate, and where the ranges of its values come from.
#include <functional>
#include <span>
#include <vector>

#include "common/arena.h"
#include "src/npu/graph.h"

namespace tessera::npu {

class FloatRun {
  public:
    /// Some numbers of a value that are neither padding nor masked.
    using Observer = std::function<void(GraphValueId, std::span<const float>)>;

    /// The graph and the backend, which multiplies and is sized for the program's n_tok, outlive this. Takes
    /// all memory that runs need. Errors: no memory, weights that were packed for integers.
    static Result<FloatRun> create(const Graph& graph, Backend& backend);

    /// Rows [n_valid, dim] of what the graph is given and of what it is for. `observe` may be empty.
    void run(const Pass& pass, std::span<const float* const> inputs, std::span<float* const> outputs,
             const Observer& observe);

    /// Of a whole program: 1 to n_tok tokens behind those since create() or restart(), within n_ctx.
    void run(std::span<const int32_t> tokens, const Observer& observe);
    void restart() { n_past_ = 0; }

    /// Of the latest run, until a later value took its slot: the output is still there.
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
