#pragma once
// Runs a graph in the device's integers, node by node with the scalar reference definitions. Tiled, scheduled
// and vectorized implementations must match it bit for bit.
#include <span>
#include <vector>

#include "src/npu/graph.h"
#include "src/npu/prepare.h"

namespace tessera::npu {

class IntegerRun {
  public:
    /// All arguments must outlive this object; graphs of one model share `matrices`. Errors name the node's
    /// result: a missing range, or values that the device's number formats cannot represent.
    static Result<IntegerRun> create(const Graph& graph, QuantizedMatrices& matrices, const Ranges& ranges);

    /// Inputs and outputs are float rows [n_valid, dim]. The cache must hold keys and values of the n_past
    /// preceding tokens.
    void run(const Pass& pass, std::span<const float* const> inputs, std::span<float* const> outputs);

    /// For a whole program: 1 to n_tok tokens at n_past, within n_ctx.
    void run(std::span<const int32_t> tokens, int64_t n_past);

    /// The last of the graph's outputs in the latest run, as floats.
    std::vector<float> output() const;

    /// Keys and values of a layer, [n_ctx, n_head_kv * head_dim] each; empty if the graph does not contain
    /// the layer's attention. To continue with another graph of the model, copy them to it.
    struct CacheRows {
        std::vector<uint8_t> k, v;
        bool operator==(const CacheRows&) const = default;
    };
    std::vector<CacheRows>& caches() { return caches_; }

  private:
    struct Step;

    explicit IntegerRun(const Graph& graph) : graph_(&graph) {}
    const Encoding& encoding(GraphValueId id) const { return encodings_[static_cast<size_t>(id.at)]; }
    uint16_t* slot(GraphValueId id) { return slots_[static_cast<size_t>((*graph_)[id].slot)].data(); }
    void run_nodes(const Pass& pass);
    void read(GraphValueId id, float* rows) const;

    const Graph* graph_;
    std::vector<Encoding> encodings_;           // indexed by the graph's values
    std::vector<Prepared> prepared_;            // indexed by the graph's nodes
    std::vector<std::vector<uint16_t>> slots_;  // by GraphValue::slot
    std::vector<CacheRows> caches_;
    Pass pass_;
};

}  // namespace tessera::npu
