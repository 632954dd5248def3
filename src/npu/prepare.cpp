// Selects the encodings and weights for the factors and tables of linear.h, norm.h etc.
#include "src/npu/prepare.h"

#include <algorithm>

#include "src/npu/share_work.h"

namespace tessera::npu {

namespace {

/// The value that a node writes; none for nodes that fill the cache.
struct WrittenBy {
    GraphValueId operator()(const AppendNode&) const { return {}; }
    template <class Other>
    GraphValueId operator()(const Other& node) const {
        return node.y;
    }
};

/// Quantizes row by row, so that only one float row per thread is in memory. `sum` may be null.
Result<QuantizedWeights> quantize_matrix(const Weight& w, const WeightRecipe& recipe, ThreadPool* pool,
                                         SignalToNoise* sum) {
    QuantizedWeights out = empty_weights(recipe, w.n_out, w.n_in);
    const auto n_rows = static_cast<size_t>(w.n_out);
    std::vector<SignalToNoise> errors(n_rows);
    std::vector<Result<void>> done(n_rows);
    TSR_TRY_VOID(share_work(pool, w.n_out, [&](int64_t row) {
        const std::vector<float> floats = decode_rows(w, row, 1);
        const auto at = static_cast<size_t>(row);
        done[at] = quantize_row(floats.data(), row, out);
        if (sum && done[at]) errors[at] = out.row_error(floats.data(), row);
    }));
    for (size_t row = 0; row < n_rows; ++row) {
        if (!done[row]) return tl::unexpected(std::move(done[row].error()));
        if (sum) *sum += errors[row];
    }
    return out;
}

}  // namespace

std::vector<float> decode_rows(const Weight& w, int64_t row0, int64_t n_rows) {
    std::vector<float> out(static_cast<size_t>(n_rows * w.n_in));
    for (int64_t r = 0; r < n_rows; ++r)
        type_info(w.type).dequantize(w.row(row0 + r), out.data() + r * w.n_in, w.n_in);
    return out;
}

Result<std::vector<Encoding>> encode_values(const Graph& graph, const Recipe& recipe, const Ranges& ranges) {
    std::vector<Encoding> encodings(graph.values.size());
    const auto at = [&](GraphValueId id) -> Encoding& { return encodings[static_cast<size_t>(id.at)]; };
    std::vector<bool> is_given(graph.values.size());
    for (const Node& node : graph.nodes) {
        const auto* softmax = std::get_if<SoftmaxNode>(&node);
        const auto* last = std::get_if<LastRowNode>(&node);
        if (softmax || last) is_given[static_cast<size_t>((softmax ? softmax->y : last->y).at)] = true;
        if (softmax) at(softmax->y) = MaskedSoftmax::output();
    }
    for (size_t i = 0; i < graph.values.size(); ++i) {
        if (is_given[i]) continue;
        const GraphValue& value = graph.values[i];
        TSR_TRY(const Range range, ranges.find(value.name));
        auto encoding = value.is_cached ? kv_encoding(range.largest())
                                        : encoding_of_range(range.min, range.max, recipe.bits_of(value.name));
        if (!encoding) return fail_in(value.name, std::move(encoding.error()));
        encodings[i] = *encoding;
    }
    for (const Node& node : graph.nodes)
        if (const auto* last = std::get_if<LastRowNode>(&node)) at(last->y) = at(last->x);
    return encodings;
}

Result<const QuantizedWeights*> QuantizedMatrices::get(const record::Param<Weight>& matrix) {
    const std::pair<std::string, int64_t> key(matrix.tensor.name, matrix.tensor.row0);
    const auto known = matrices_.find(key);
    if (known != matrices_.end()) return &known->second;
    if (matrix.view.layout != Layout::Rows)
        return fail(ErrorCode::Unsupported, "%s: expected rows as in the file, found a packed layout",
                    key.first.c_str());
    SignalToNoise sum;
    auto quantized = quantize_matrix(matrix.view, recipe_.weight_of(key.first), options_.pool,
                                     options_.observer ? &sum : nullptr);
    if (!quantized) return fail_in(key.first, std::move(quantized.error()));
    if (options_.observer) TSR_TRY_VOID(options_.observer(matrix, quantized->recipe, sum.db()));
    return &matrices_.emplace(key, std::move(*quantized)).first->second;
}

void QuantizedMatrices::done_with(const record::Param<Weight>& matrix) {
    if (!options_.keep) matrices_.erase({matrix.tensor.name, matrix.tensor.row0});
}

/// Prepares the data of each kind of node.
struct Preparation::Make {
    Preparation& all;

    using Made = Result<Prepared>;
    const Graph& graph() const { return all.graph_; }
    const record::Program& program() const { return *graph().program; }
    const Encoding& encoding(GraphValueId id) const { return all.encodings_[static_cast<size_t>(id.at)]; }
    const AppendNode& append(record::CacheId cache) const {
        return *all.appends_[static_cast<size_t>(cache.at)];
    }

    template <class Op>
    static Made made(Result<Op> op) {
        if (!op) return tl::unexpected<Error>(std::move(op.error()));
        return Prepared(std::move(*op));
    }

    Made operator()(const LinearNode& node) {
        TSR_TRY(const QuantizedWeights* weights, all.matrices_.get(program()[node.w]));
        // scale * (W x + bias) with the output scale s equals W x + bias with the output scale s / scale.
        Encoding y = encoding(node.y);
        y.scale /= node.scale;
        const float* bias = node.bias ? program()[node.bias].view.data : nullptr;
        QuantizedMatrices& matrices = all.matrices_;
        return made(
            make_linear(*weights, bias, encoding(node.x), y, matrices.recipe().output, matrices.pool()));
    }
    Made operator()(const NormNode& node) {
        const Vector& w = program()[node.w].view;
        return made(RmsNorm::create(w.data, w.n, node.eps, encoding(node.x), encoding(node.y)));
    }
    Made operator()(const RopeNode& node) {
        const record::Rope& rope = program()[node.rope];
        std::vector<double> angles;
        for (int64_t position = 0; position < all.n_ctx_; ++position)
            for (const double freq : rope.freq) angles.push_back(static_cast<double>(position) * freq);
        return made(Rope::create(angles, 2 * std::ssize(rope.freq), node.head_dim,
                                 node.kind == RopeKind::Norm ? RopePairs::Adjacent : RopePairs::Halves,
                                 static_cast<double>(rope.magnitude), encoding(node.x), encoding(node.y)));
    }
    Made operator()(const ScoresNode& node) {
        return made(DynamicProduct::create(encoding(node.q), encoding(append(node.cache).k), encoding(node.y),
                                           static_cast<double>(node.scale), program()[node.cache].where.k_dim,
                                           all.matrices_.recipe().output));
    }
    Made operator()(const SoftmaxNode& node) { return Prepared(MaskedSoftmax(encoding(node.x))); }
    Made operator()(const WeighNode& node) {
        return made(DynamicProduct::create(encoding(node.p), encoding(append(node.cache).v), encoding(node.y),
                                           1, all.n_ctx_, all.matrices_.recipe().output));
    }
    Made operator()(const FunctionNode& node) {
        return Prepared(function_table(node.function, encoding(node.x), encoding(node.y)));
    }
    Made operator()(const MulNode& node) {
        return made(Mul::create(encoding(node.a), encoding(node.b), encoding(node.y)));
    }
    Made operator()(const AddNode& node) {
        return made(Add::create(encoding(node.a), encoding(node.b), encoding(node.y)));
    }
    Made operator()(const AppendNode&) { return Prepared(); }
    Made operator()(const LastRowNode&) { return Prepared(); }
};

Preparation::Preparation(const Graph& graph, std::span<const Encoding> encodings, QuantizedMatrices& matrices,
                         int64_t n_ctx)
    : graph_(graph),
      encodings_(encodings),
      matrices_(matrices),
      n_ctx_(n_ctx),
      appends_(graph.program->caches.size()) {
    for (const Node& node : graph.nodes)
        if (const auto* append = std::get_if<AppendNode>(&node))
            appends_[static_cast<size_t>(append->cache.at)] = append;
}

Result<Prepared> Preparation::operator()(const Node& node) {
    auto prepared = std::visit(Make{*this}, node);
    if (!prepared) return fail_in(graph_[std::visit(WrittenBy{}, node)].name, std::move(prepared.error()));
    return prepared;
}

}  // namespace tessera::npu
