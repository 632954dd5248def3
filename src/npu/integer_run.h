#pragma once
// A graph in the device's integers, node by node by the scalar definitions: what everything that is tiled,
// scheduled or vectorized has to equal bit for bit.
#include <span>
#include <vector>

#include "src/npu/graph.h"
#include "src/npu/prepare.h"

namespace tessera::npu {

class IntegerRun {
  public:
    /// All outlive this; graphs of one model share `matrices`. Errors name the node's result: no range, and
    /// whatever cannot be said in the device's numbers.
    static Result<IntegerRun> create(const Graph& graph, QuantizedMatrices& matrices, const Ranges& ranges);

    /// Rows [n_valid, dim] of what the graph is given and of what it is for, as floats. The cache holds keys
    /// and values of the n_past tokens before.
    void run(const Pass& pass, std::span<const float* const> inputs, std::span<float* const> outputs);

    /// Of a whole program: 1 to n_tok tokens at n_past, within n_ctx.
    void run(std::span<const int32_t> tokens, int64_t n_past);

    /// The last of the graph's outputs in the latest run, as floats.
    std::vector<float> output() const;

    /// Keys and values of a layer, [n_ctx, n_head_kv * head_dim] each, or none where the graph has no
    /// attention of it. Who runs another graph of the model
    /// behind this one gives it the same bytes.
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
    std::vector<Encoding> encodings_;           // by the graph's values
    std::vector<Prepared> prepared_;            // by the graph's nodes
    std::vector<std::vector<uint16_t>> slots_;  // by GraphValue::slot
    std::vector<CacheRows> caches_;
    Pass pass_;
};

}  // namespace tessera::npu
