// Runs the prepared nodes (prepare.h) in order. The arithmetic is in linear.h, norm.h etc.; this file only
// selects the operands.
#include "src/npu/integer_run.h"

#include <algorithm>

namespace tessera::npu {

Result<IntegerRun> IntegerRun::create(const Graph& graph, QuantizedMatrices& matrices, const Ranges& ranges) {
    IntegerRun run(graph);
    TSR_TRY(run.encodings_, encode_values(graph, matrices.recipe(), ranges));
    Preparation preparation(graph, run.encodings_, matrices, graph.n_ctx);
    for (const Node& node : graph.nodes) {
        TSR_TRY(Prepared prepared, preparation(node));
        run.prepared_.push_back(std::move(prepared));
    }
    run.slots_.resize(static_cast<size_t>(graph.n_slots));
    for (const GraphValue& value : graph.values) {
        std::vector<uint16_t>& slot = run.slots_[static_cast<size_t>(value.slot)];
        slot.resize(std::max(slot.size(), static_cast<size_t>(value.rows * value.dim)));
    }
    for (size_t i = 0; i < preparation.appends().size(); ++i) {
        const KvLayer& where = graph.program->caches[i].where;
        const int64_t n_positions = preparation.appends()[i] ? graph.n_ctx : 0;
        const auto n = static_cast<size_t>(n_positions * where.n_head_kv * where.k_dim);
        run.caches_.push_back({std::vector<uint8_t>(n), std::vector<uint8_t>(n)});
    }
    return run;
}

/// Executes the nodes of one run with their prepared data.
struct IntegerRun::Step {
    IntegerRun& run;
    const Prepared& prepared;

    const Graph& graph() const { return *run.graph_; }
    int64_t rows(GraphValueId id) const { return run.pass_.rows(graph()[id]); }
    int64_t dim(GraphValueId id) const { return graph()[id].dim; }
    uint16_t* row(GraphValueId id, int64_t r) const {
        return run.slots_[static_cast<size_t>(graph()[id].slot)].data() + r * dim(id);
    }
    const KvLayer& kv(record::CacheId cache) const { return (*graph().program)[cache].where; }
    CacheRows& cache(record::CacheId id) const { return run.caches_[static_cast<size_t>(id.at)]; }
    /// Calls fn(row, head, KV head, position of the row).
    template <class Fn>
    void each_head(GraphValueId id, record::CacheId cache, int64_t n_head, const Fn& fn) const {
        for (int64_t r = 0; r < rows(id); ++r)
            for (int64_t h = 0; h < n_head; ++h)
                fn(r, h, h * kv(cache).n_head_kv / n_head, run.pass_.position(graph()[id], r));
    }

    void operator()(const LinearNode& node) const {
        linear_reference(std::get<Linear>(prepared), row(node.x, 0), rows(node.y), row(node.y, 0));
    }
    void operator()(const NormNode& node) const {
        const int64_t n = (*graph().program)[node.w].view.n;
        for (int64_t r = 0; r < rows(node.y); ++r)
            for (int64_t i = 0; i < dim(node.y); i += n)
                std::get<RmsNorm>(prepared).apply(row(node.x, r) + i, row(node.y, r) + i);
    }
    void operator()(const RopeNode& node) const {
        for (int64_t r = 0; r < rows(node.y); ++r)
            for (int64_t i = 0; i < dim(node.y); i += node.head_dim)
                std::get<Rope>(prepared).apply(row(node.x, r) + i, run.pass_.position(graph()[node.x], r),
                                               row(node.y, r) + i);
    }
    void operator()(const AppendNode& node) const {
        const auto n = rows(node.k) * dim(node.k), at = run.pass_.n_past * dim(node.k);
        const auto byte = [](uint16_t code) { return static_cast<uint8_t>(code); };
        std::transform(row(node.k, 0), row(node.k, 0) + n, cache(node.cache).k.data() + at, byte);
        std::transform(row(node.v, 0), row(node.v, 0) + n, cache(node.cache).v.data() + at, byte);
    }
    void operator()(const ScoresNode& node) const {
        const int64_t n = kv(node.cache).k_dim, stride = kv(node.cache).n_head_kv * n;
        const uint8_t* keys = cache(node.cache).k.data();
        each_head(node.y, node.cache, node.n_head, [&](int64_t r, int64_t h, int64_t g, int64_t position) {
            uint16_t* y = row(node.y, r) + h * graph().n_ctx;
            for (int64_t p = Pass::first_seen(position, node.window); p <= position; ++p)
                y[p] = std::get<DynamicProduct>(prepared).apply(row(node.q, r) + h * n,
                                                                keys + p * stride + g * n, 1, n);
        });
    }
    void operator()(const SoftmaxNode& node) const {
        for (int64_t r = 0; r < rows(node.y); ++r) {
            const int64_t position = run.pass_.position(graph()[node.x], r);
            for (int64_t h = 0; h < node.n_head; ++h) {
                uint16_t* x = row(node.x, r) + h * graph().n_ctx;
                std::get<MaskedSoftmax>(prepared).apply(
                    x, graph().n_ctx, Pass::first_seen(position, node.window), position + 1, x);
            }
        }
    }
    void operator()(const WeighNode& node) const {
        const int64_t n = kv(node.cache).k_dim, stride = kv(node.cache).n_head_kv * n;
        const uint8_t* values = cache(node.cache).v.data();
        each_head(node.y, node.cache, node.n_head, [&](int64_t r, int64_t h, int64_t g, int64_t position) {
            const int64_t first = Pass::first_seen(position, node.window);
            for (int64_t i = 0; i < n; ++i)
                row(node.y, r)[h * n + i] = std::get<DynamicProduct>(prepared).apply(
                    row(node.p, r) + h * graph().n_ctx + first, values + first * stride + g * n + i, stride,
                    position + 1 - first);
        });
    }
    void operator()(const FunctionNode& node) const {
        const auto& table = std::get<std::vector<uint16_t>>(prepared);
        std::transform(row(node.x, 0), row(node.x, rows(node.x)), row(node.y, 0),
                       [&](uint16_t code) { return table[code]; });
    }
    void operator()(const MulNode& node) const { combine(node, std::get<Mul>(prepared)); }
    void operator()(const AddNode& node) const { combine(node, std::get<Add>(prepared)); }
    void operator()(const LastRowNode& node) const {
        std::copy_n(row(node.x, run.pass_.n_valid - 1), dim(node.y), row(node.y, 0));
    }

    template <class PairNode, class Op>
    void combine(const PairNode& node, const Op& op) const {
        op.apply(row(node.a, 0), row(node.b, 0), rows(node.y) * dim(node.y), row(node.y, 0));
    }
};

void IntegerRun::run(std::span<const int32_t> tokens, int64_t n_past) {
    const record::Program& program = *graph_->program;
    TSR_CHECK(!tokens.empty() && std::ssize(tokens) <= program.n_tok);
    const auto& embed = std::get<record::EmbedOp>(program.ops.front().verb);
    const GraphValueId input = graph_->inputs.front();
    uint16_t* x = slot(input);
    for (const int32_t token : tokens) {
        std::vector<float> row = decode_rows(program[embed.table].view, token, 1);
        for (float& value : row) value *= embed.scale;
        quantize(encoding(input), row.data(), std::ssize(row), x);
        x += row.size();
    }
    run_nodes({.n_valid = std::ssize(tokens), .n_past = n_past});
}

void IntegerRun::run(const Pass& pass, std::span<const float* const> inputs,
                     std::span<float* const> outputs) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        const GraphValueId id = graph_->inputs[i];
        quantize(encoding(id), inputs[i], pass.n_valid * (*graph_)[id].dim, slot(id));
    }
    run_nodes(pass);
    for (size_t i = 0; i < outputs.size(); ++i) read(graph_->outputs[i], outputs[i]);
}

void IntegerRun::run_nodes(const Pass& pass) {
    TSR_CHECK(pass.n_valid > 0 && pass.n_past >= 0 && pass.n_past + pass.n_valid <= graph_->n_ctx);
    pass_ = pass;
    for (size_t i = 0; i < graph_->nodes.size(); ++i) std::visit(Step{*this, prepared_[i]}, graph_->nodes[i]);
}

void IntegerRun::read(GraphValueId id, float* rows) const {
    const GraphValue& value = (*graph_)[id];
    dequantize(encoding(id), slots_[static_cast<size_t>(value.slot)].data(), pass_.rows(value) * value.dim,
               rows);
}

std::vector<float> IntegerRun::output() const {
    const GraphValueId id = graph_->outputs.back();
    const GraphValue& value = (*graph_)[id];
    std::vector<float> out(static_cast<size_t>(pass_.rows(value) * value.dim));
    read(id, out.data());
    return out;
}

}  // namespace tessera::npu
