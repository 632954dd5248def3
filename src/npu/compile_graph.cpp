// Compiles node by node: inputs are loaded from the arena, results are stored there. Scores and probabilities
// exist for one head at a time, and only in VTCM if they fit (attention_stream.h). Arena offsets are assigned
// from the lifetimes of values.
#include "src/npu/compile_graph.h"

#include <algorithm>

#include "common/arena_plan.h"
#include "src/npu/attention_stream.h"
#include "src/npu/linear_stream.h"
#include "src/npu/vector_stream.h"

namespace tessera::npu {

namespace {

/// Values that a node reads, and the one it writes, if any. All of attention counts as one node, the one that
/// writes the weighted values.
struct Uses {
    std::vector<GraphValueId> reads;
    GraphValueId writes;
};

struct UsesOf {
    Uses operator()(const AppendNode& node) const { return {{node.k, node.v}, {}}; }
    Uses operator()(const ScoresNode& node) const { return {{node.q}, {}}; }
    Uses operator()(const SoftmaxNode&) const { return {}; }
    Uses operator()(const WeighNode& node) const { return {{}, node.y}; }
    Uses operator()(const MulNode& node) const { return {{node.a, node.b}, node.y}; }
    Uses operator()(const AddNode& node) const { return {{node.a, node.b}, node.y}; }
    template <class Other>
    Uses operator()(const Other& node) const {
        return {{node.x}, node.y};
    }
};

/// The matrix with its input heads of `dim` values padded to whole tiles. Padding breaks blocks, so the
/// weights become bytes.
QuantizedWeights with_padded_heads(const QuantizedWeights& w, int64_t dim) {
    const int64_t padded = tiles(dim, kTileChannels) * kTileChannels, n_head = w.n_in / dim;
    QuantizedWeights out{.recipe = {WeightRecipe::Kind::Int8, 0},
                         .n_out = w.n_out,
                         .n_in = n_head * padded,
                         .q = std::vector<int8_t>(static_cast<size_t>(w.n_out * n_head * padded)),
                         .block_mult = {},
                         .scale = w.scale};
    for (int64_t o = 0; o < w.n_out; ++o)
        for (int64_t i = 0; i < w.n_in; ++i)
            out.q[static_cast<size_t>(o * out.n_in + i / dim * padded + i % dim)] =
                static_cast<int8_t>(w.w8(o, i));
    return out;
}

/// Sums up the bytes of the matrices of operations, with a margin for records and tables.
struct MatrixBytes {
    const record::Program& program;
    const Recipe& recipe;
    size_t n_bytes = 0;

    void operator()(FieldName, record::WeightId id) {
        if (!id) return;
        const record::Param<Weight>& matrix = program[id];
        const WeightRecipe kind = recipe.weight_of(matrix.tensor.name);
        const auto n_in = static_cast<size_t>(matrix.view.n_in);
        const size_t row =
            kind.has_blocks() ? n_in / 2 + static_cast<size_t>(kind.n_blocks(matrix.view.n_in)) : n_in;
        n_bytes += static_cast<size_t>(matrix.view.n_out) * (row + row / 64 + 64);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}
};

}  // namespace

CachePlan plan_caches(const record::Program& program, const std::vector<bool>& is_used, int64_t n_ctx) {
    CachePlan plan;
    uint64_t at = 0;
    for (size_t i = 0; i < program.caches.size(); ++i) {
        DeviceCache cache{
            .layer = static_cast<int32_t>(i), .session = 0, .n_head = 0, .head_dim = 0, .k = 0, .v = 0};
        if (is_used[i]) {
            const KvLayer& where = program.caches[i].where;
            const auto n_bytes = static_cast<uint64_t>(where.n_head_kv * where.k_dim * n_ctx);
            cache.n_head = where.n_head_kv;
            cache.head_dim = where.k_dim;
            cache.k = at;
            cache.v = at + n_bytes;
            at += 2 * n_bytes;
        }
        plan.caches.push_back(cache);
    }
    plan.n_bytes = static_cast<int64_t>(at);
    return plan;
}

Result<TilePlan> GraphCompiler::plan_of(const LinearShape& s) {
    const ShapeKey key(s.rows, s.n_in, s.n_out, s.block, s.planes_in, s.planes_out, s.is_cached, s.k_first);
    const auto known = plans_.find(key);
    if (known != plans_.end()) return known->second;
    auto plan = plan_linear(s, device_);
    if (plan) plans_.emplace(key, *plan);
    return plan;
}

/// Generates the instructions of one graph. The function of a node returns the VTCM bytes that it uses.
class GraphCompiler::Writer {
  public:
    Writer(GraphCompiler& all, const Graph& graph, std::span<const Encoding> encodings)
        : all_(all),
          graph_(graph),
          encodings_(encodings),
          preparation_(graph, encodings, all.matrices_, all.n_ctx_),
          tensors_(graph.values.size()),
          vector_(all.device_, builder_),
          n_tok_(graph.program->n_tok) {}

    Result<DeviceGraph> write() {
        TSR_TRY_VOID(lay_out());
        plan_arena_of_values();
        DeviceGraph out;
        for (const Node& node : graph_.nodes) {
            node_ = &node;
            const uint32_t first = builder_.size();
            const std::string name = name_of(node);
            auto n_bytes = std::visit(*this, node);
            if (!n_bytes) return fail_in(name, std::move(n_bytes.error()));
            vtcm_bytes_ = std::max(vtcm_bytes_, *n_bytes);
            if (builder_.size() > first) out.nodes.push_back({name, first});
        }
        out.n_tok = n_tok_;
        out.n_ctx = attends_ ? graph_.n_ctx : 0;
        out.stream = builder_.take();
        for (const GraphValueId id : graph_.inputs) out.inputs.push_back(port(id));
        for (const GraphValueId id : graph_.outputs) out.outputs.push_back(port(id));
        out.arena_bytes = arena_bytes_;
        out.vtcm_bytes = vtcm_bytes_;
        return out;
    }

    Result<int64_t> operator()(const LinearNode& node) {
        TSR_TRY(const PlacedMatrix matrix, place(node));
        const LinearShape shape{.rows = n_tok_,
                                .n_in = matrix.n_in,
                                .n_out = matrix.n_out,
                                .block = matrix.block,
                                .planes_in = tensor(node.x).layout.planes,
                                .planes_out = tensor(node.y).layout.planes};
        TSR_TRY(const TilePlan plan, all_.plan_of(shape));
        builder_.append(linear_stream(shape, plan,
                                      {.weights = matrix.at,
                                       .input = {.at = tensor(node.x).at, .channels = 0, .first_tile = 0},
                                       .output = {.at = tensor(node.y).at, .channels = 0, .first_tile = 0},
                                       .mult_offset = matrix.mult_offset,
                                       .record_offset = matrix.record_offset,
                                       .zero_out = encoding(node.y).zero,
                                       .factor = {},
                                       .mode = mode()}));
        return plan.vtcm_bytes;
    }
    Result<int64_t> operator()(const NormNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        const auto& op = std::get<RmsNorm>(prepared);
        NormRows it{};
        it.n = static_cast<uint32_t>(op.gamma().size());
        it.factors = op.factors();
        return vector_.norm(tensor(node.x), tensor(node.y), it, all_.constants_.add_all(op.gamma()));
    }
    Result<int64_t> operator()(const RopeNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        const auto& op = std::get<Rope>(prepared);
        RotateRows it{};
        it.factors = op.factors();
        return vector_.rotate(tensor(node.x), tensor(node.y), it, all_.constants_.add_all(op.table()));
    }
    Result<int64_t> operator()(const AppendNode& node) {
        const DeviceCache& cache = all_.caches_[static_cast<size_t>(node.cache.at)];
        return vector_.append(tensor(node.k), tensor(node.v),
                              {cache.k, cache.v, cache.n_head, cache.head_dim, all_.n_ctx_});
    }
    /// Only remembers the node: WeighNode generates all of attention.
    Result<int64_t> operator()(const ScoresNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        scores_ = &node;
        scores_factor_ = std::get<DynamicProduct>(prepared).factor();
        return 0;
    }
    Result<int64_t> operator()(const SoftmaxNode&) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        const ExpTables& tables = std::get<MaskedSoftmax>(prepared).tables();
        exp_tables_ = all_.constants_.add_all(std::span<const ExpTables>(&tables, 1));
        return 0;
    }
    /// Generates all of attention, head by head.
    Result<int64_t> operator()(const WeighNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        const Multiplier values_factor = std::get<DynamicProduct>(prepared).factor();
        if (const auto plan = attention_plan(*scores_, node))
            return attend_in_vtcm(node, *plan, values_factor);
        return attend_through_ddr(node, values_factor);
    }
    Result<int64_t> operator()(const FunctionNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        const auto& table = std::get<std::vector<uint16_t>>(prepared);
        const uint64_t at = all_.constants_.add_all(std::span<const uint16_t>(table));
        return vector_.lookup(tensor(node.x), tensor(node.y), at, std::ssize(table));
    }
    Result<int64_t> operator()(const MulNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        MulValues it{};
        it.factors = std::get<Mul>(prepared).factors();
        return vector_.mul(tensor(node.a), tensor(node.b), tensor(node.y), it);
    }
    Result<int64_t> operator()(const AddNode& node) {
        TSR_TRY(const Prepared prepared, preparation_(*node_));
        AddValues it{};
        it.factors = std::get<Add>(prepared).factors();
        return vector_.add(tensor(node.a), tensor(node.b), tensor(node.y), it);
    }
    Result<int64_t> operator()(const LastRowNode&) {
        return fail(ErrorCode::Unsupported, "a graph must compute all of its rows, not only the last one");
    }

  private:
    /// nullopt if scores go through DDR.
    std::optional<AttentionPlan> attention_plan(const ScoresNode& scores, const WeighNode& node) {
        return plan_attention(attention_shape(scores, node), all_.device_);
    }
    AttentionShape attention_shape(const ScoresNode& scores, const WeighNode& node) {
        const DeviceCache& cache = all_.caches_[static_cast<size_t>(node.cache.at)];
        return {.rows = n_tok_,
                .n_head = node.n_head,
                .n_head_kv = cache.n_head,
                .head_dim = cache.head_dim,
                .n_ctx = graph_.n_ctx,
                .planes_q = tensor(scores.q).layout.planes,
                .planes_scores = tensor(scores.y).layout.planes,
                .planes_out = tensor(node.y).layout.planes};
    }

    int64_t attend_in_vtcm(const WeighNode& node, const AttentionPlan& plan, Multiplier values_factor) {
        const DeviceCache& cache = all_.caches_[static_cast<size_t>(node.cache.at)];
        const Encoding &of_q = encoding(scores_->q), &of_p = encoding(node.p);
        builder_.append(attention_stream(attention_shape(*scores_, node), plan,
                                         {.q = part(scores_->q, 0),
                                          .out = part(node.y, 0),
                                          .k = cache.k,
                                          .v = cache.v,
                                          .cache_n_ctx = all_.n_ctx_,
                                          .tables = exp_tables_,
                                          .window = static_cast<int32_t>(node.window),
                                          .zero_scores = encoding(scores_->y).zero,
                                          .zero_out = encoding(node.y).zero,
                                          .centre_q = centre_of(mode(), of_q.bits) - of_q.zero,
                                          .centre_p = centre_of(mode(), of_p.bits) - of_p.zero,
                                          .scores_factor = scores_factor_,
                                          .values_factor = values_factor,
                                          .mode = mode()}));
        return plan.vtcm_bytes;
    }

    /// Attention that stores and reloads each head's scores and probabilities.
    Result<int64_t> attend_through_ddr(const WeighNode& node, Multiplier values_factor) {
        const DeviceCache& cache = all_.caches_[static_cast<size_t>(node.cache.at)];
        const int64_t dim = cache.head_dim, n_ctx = graph_.n_ctx;
        const Encoding &of_q = encoding(scores_->q), &of_p = encoding(node.p);
        const ActTensor& scores = tensor(scores_->y);
        const ActTensor& p = tensor(node.p);
        LinearShape of_scores{.rows = n_tok_,
                              .n_in = dim,
                              .n_out = n_ctx,
                              .block = 0,
                              .planes_in = of_q.bits / 8,
                              .planes_out = scores.layout.planes,
                              .is_cached = true,
                              .k_first = 0};
        const LinearShape of_values{.rows = n_tok_,
                                    .n_in = n_ctx,
                                    .n_out = dim,
                                    .block = 0,
                                    .planes_in = p.layout.planes,
                                    .planes_out = tensor(node.y).layout.planes,
                                    .is_cached = true,
                                    .k_first = 0};
        SoftmaxRows softmax{};
        softmax.window = static_cast<uint32_t>(node.window);
        int64_t n_bytes = 0;
        for (int64_t h = 0; h < node.n_head; ++h) {
            const auto of_head = static_cast<uint64_t>(h * cache.n_head / node.n_head * dim * all_.n_ctx_);
            of_scores.k_first = h * dim % kTileChannels;
            TSR_TRY(const TilePlan scores_plan, all_.plan_of(of_scores));
            builder_.append(linear_stream(of_scores, scores_plan,
                                          {.weights = cache.k + of_head,
                                           .input = part(scores_->q, h * dim / kTileChannels),
                                           .output = {.at = scores.at, .channels = 0, .first_tile = 0},
                                           .zero_out = encoding(scores_->y).zero,
                                           .input_stride = static_cast<uint64_t>(all_.n_ctx_),
                                           .centre = centre_of(mode(), of_q.bits) - of_q.zero,
                                           .factor = scores_factor_,
                                           .mode = mode()}));
            TSR_TRY(const int64_t softmax_bytes, vector_.softmax(scores, p, softmax, exp_tables_));
            TSR_TRY(const TilePlan values_plan, all_.plan_of(of_values));
            builder_.append(linear_stream(of_values, values_plan,
                                          {.weights = cache.v + of_head,
                                           .input = {.at = p.at, .channels = 0, .first_tile = 0},
                                           .output = part(node.y, h * tiles(dim, kTileChannels)),
                                           .zero_out = encoding(node.y).zero,
                                           .input_stride = static_cast<uint64_t>(dim),
                                           .centre = centre_of(mode(), of_p.bits) - of_p.zero,
                                           .factor = values_factor,
                                           .mode = mode()}));
            n_bytes = std::max({n_bytes, scores_plan.vtcm_bytes, softmax_bytes, values_plan.vtcm_bytes});
        }
        return n_bytes;
    }

    OutputMode mode() const { return all_.matrices_.recipe().output; }
    const Encoding& encoding(GraphValueId id) const { return encodings_[static_cast<size_t>(id.at)]; }
    ActTensor& tensor(GraphValueId id) { return tensors_[static_cast<size_t>(id.at)]; }
    ActPlace part(GraphValueId id, int64_t first_tile) {
        return {tensor(id).at, tensor(id).layout.channels, first_tile};
    }

    std::string name_of(const Node& node) const {
        if (const auto* append = std::get_if<AppendNode>(&node)) return graph_[append->k].name + ".append";
        const Uses uses = std::visit(UsesOf{}, node);
        return uses.writes ? graph_[uses.writes].name : "attention";
    }

    /// Determines the tile layouts of all values; scores and probabilities have the size of one head.
    Result<void> lay_out() {
        for (size_t i = 0; i < graph_.values.size(); ++i)
            tensors_[i].layout = {n_tok_, graph_.values[i].dim, encodings_[i].bits / 8};
        for (const Node& node : graph_.nodes) {
            if (const auto* scores = std::get_if<ScoresNode>(&node)) {
                attends_ = true;
                tensor(scores->y).layout.channels = graph_.n_ctx;
            }
            if (const auto* softmax = std::get_if<SoftmaxNode>(&node))
                tensor(softmax->y).layout.channels = graph_.n_ctx;
            if (const auto* weigh = std::get_if<WeighNode>(&node)) {
                const int64_t dim = all_.caches_[static_cast<size_t>(weigh->cache.at)].head_dim;
                if (dim % kTileChannels == 0) continue;
                tensor(weigh->y).layout.channels = weigh->n_head * tiles(dim, kTileChannels) * kTileChannels;
                TSR_TRY_VOID(check_padded(weigh->y));
            }
        }
        if (attends_ && (graph_.n_ctx % kTileChannels != 0 || graph_.n_ctx > all_.n_ctx_))
            return fail(ErrorCode::InvalidArgument,
                        "a context of %lld positions: expected a multiple of 32 up to the %lld of the cache",
                        static_cast<long long>(graph_.n_ctx), static_cast<long long>(all_.n_ctx_));
        return {};
    }

    /// Heads that are not whole tiles are padded, which only products support.
    Result<void> check_padded(GraphValueId id) const {
        const auto reads = [&](const Node& node) {
            const Uses uses = std::visit(UsesOf{}, node);
            return !std::holds_alternative<LinearNode>(node) &&
                   std::find(uses.reads.begin(), uses.reads.end(), id) != uses.reads.end();
        };
        const bool is_output =
            std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
        if (is_output || std::any_of(graph_.nodes.begin(), graph_.nodes.end(), reads))
            return fail(
                ErrorCode::Unsupported,
                "%s: heads that are not multiples of 32 values are read by an operation other than a product",
                graph_[id].name.c_str());
        return {};
    }

    /// A value lives from the node that writes it to the last one that reads it; attention uses all of its
    /// values until the last head is done.
    void plan_arena_of_values() {
        std::vector<Lifetime> lives(graph_.values.size());
        const auto n_nodes = static_cast<int32_t>(graph_.nodes.size());
        for (size_t i = 0; i < lives.size(); ++i)
            lives[i].n_bytes = static_cast<size_t>(tensors_[i].layout.bytes());
        const auto live = [&](GraphValueId id) -> Lifetime& { return lives[static_cast<size_t>(id.at)]; };
        const ScoresNode* scores = nullptr;
        for (int32_t n = 0; n < n_nodes; ++n) {
            const Node& node = graph_.nodes[static_cast<size_t>(n)];
            Uses uses = std::visit(UsesOf{}, node);
            if (const auto* found = std::get_if<ScoresNode>(&node)) scores = found;
            if (const auto* weigh = std::get_if<WeighNode>(&node)) {
                const bool in_vtcm = attention_plan(*scores, *weigh).has_value();
                for (const GraphValueId id : {scores->y, weigh->p}) {
                    live(id).first = live(id).last = n;
                    if (in_vtcm) live(id).n_bytes = 0;
                }
                uses.reads = {scores->q};
            }
            for (const GraphValueId id : uses.reads) live(id).last = n;
            if (uses.writes) live(uses.writes).first = live(uses.writes).last = n;
        }
        for (const GraphValueId id : graph_.inputs) live(id).first = 0;
        for (const GraphValueId id : graph_.outputs) live(id).last = n_nodes;
        const ArenaPlan plan = plan_arena(lives, 128);
        for (size_t i = 0; i < lives.size(); ++i) {
            tensors_[i].at = plan.offsets[i];
            arena_bytes_ = std::max(arena_bytes_, static_cast<int64_t>(plan.offsets[i] + lives[i].n_bytes));
        }
    }

    Port port(GraphValueId id) { return {graph_[id].name, tensor(id).at, graph_[id].dim, encoding(id)}; }

    Result<PlacedMatrix> place(const LinearNode& node) {
        const record::Param<Weight>& matrix = (*graph_.program)[node.w];
        const Encoding &x = encoding(node.x), &y = encoding(node.y);
        const bool is_padded = tensor(node.x).layout.channels != graph_[node.x].dim;
        const int64_t head_dim = is_padded ? head_dim_of(node.x) : 0;
        const float* bias = node.bias ? (*graph_.program)[node.bias].view.data : nullptr;
        const MatrixKey key(matrix.tensor.name, matrix.tensor.row0, x.bits, x.scale, x.zero, y.bits, y.scale,
                            y.zero, node.scale, head_dim, bias);
        const auto known = all_.placed_.find(key);
        if (known != all_.placed_.end()) return known->second;
        TSR_TRY(Prepared prepared, preparation_(*node_));
        auto& op = std::get<Linear>(prepared);
        QuantizedWeights padded;
        if (is_padded) {
            padded = with_padded_heads(*op.weights, head_dim);
            op.weights = &padded;
        }
        TSR_TRY(const WeightBlob blob, make_weight_blob(op, all_.matrices_.pool()));
        const PlacedMatrix placed{.at = all_.constants_.add(blob.bytes),
                                  .mult_offset = blob.mult_offset,
                                  .record_offset = blob.record_offset,
                                  .n_in = op.weights->n_in,
                                  .n_out = op.weights->n_out,
                                  .block = blob.block};
        all_.placed_.emplace(key, placed);
        all_.matrices_.done_with(matrix);
        return placed;
    }

    int64_t head_dim_of(GraphValueId id) const {
        for (const Node& node : graph_.nodes)
            if (const auto* weigh = std::get_if<WeighNode>(&node); weigh && weigh->y == id)
                return all_.caches_[static_cast<size_t>(weigh->cache.at)].head_dim;
        return 0;
    }

    GraphCompiler& all_;
    const Graph& graph_;
    std::span<const Encoding> encodings_;
    Preparation preparation_;
    std::vector<ActTensor> tensors_;  // indexed by the graph's values
    StreamBuilder builder_;
    VectorStream vector_;
    int64_t n_tok_;
    bool attends_ = false;
    int64_t arena_bytes_ = 0, vtcm_bytes_ = 0;
    const Node* node_ = nullptr;  // the current node
    const ScoresNode* scores_ = nullptr;
    Multiplier scores_factor_;
    uint64_t exp_tables_ = 0;
};

void GraphCompiler::reserve(const record::Program& program, std::span<const DeviceRange> segments) {
    MatrixBytes sum{program, matrices_.recipe()};
    for (const DeviceRange& range : segments)
        for (int32_t i = range.first_op; i <= range.last_op; ++i)
            program.ops[static_cast<size_t>(i)].fields(sum);
    constants_.reserve(constants_.size() + sum.n_bytes);
}

Result<DeviceGraph> GraphCompiler::compile(const Graph& graph, std::span<const Encoding> encodings) {
    return Writer(*this, graph, encodings).write();
}

}  // namespace tessera::npu
