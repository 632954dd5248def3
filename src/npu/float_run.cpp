// One plain loop for each kind of node, in double where that is free; the backend computes products and the
// embedding. Speed does not matter: this runs while a model is prepared.
#include "src/npu/float_run.h"

#include <algorithm>
#include <cmath>

namespace tessera::npu {

namespace {

double dot(const float* a, const float* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
}

void normalize(const float* x, const Vector& w, float eps, float* y) {
    const double factor = 1 / std::sqrt(dot(x, x, w.n) / static_cast<double>(w.n) + static_cast<double>(eps));
    for (int64_t i = 0; i < w.n; ++i)
        y[i] = static_cast<float>(static_cast<double>(x[i]) * factor * static_cast<double>(w.data[i]));
}

void rotate(const record::Rope& rope, RopeKind kind, int64_t position, int64_t head_dim, const float* x,
            float* y) {
    const auto half = static_cast<int64_t>(rope.freq.size());
    std::copy_n(x, head_dim, y);
    for (int64_t i = 0; i < half; ++i) {
        const double angle = static_cast<double>(position) * rope.freq[static_cast<size_t>(i)];
        const double c = static_cast<double>(rope.magnitude) * std::cos(angle),
                     s = static_cast<double>(rope.magnitude) * std::sin(angle);
        const int64_t first = kind == RopeKind::Norm ? 2 * i : i;
        const int64_t second = kind == RopeKind::Norm ? 2 * i + 1 : i + half;
        const double a = static_cast<double>(x[first]), b = static_cast<double>(x[second]);
        y[first] = static_cast<float>(a * c - b * s);
        y[second] = static_cast<float>(a * s + b * c);
    }
}

void softmax(float* x, int64_t n) {
    const float largest = *std::max_element(x, x + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
        x[i] = std::exp(x[i] - largest);
        sum += static_cast<double>(x[i]);
    }
    for (int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(static_cast<double>(x[i]) / sum);
}

}  // namespace

float* FloatRun::slot(GraphValueId id) { return slots_[static_cast<size_t>((*graph_)[id].slot)].as<float>(); }

/// Executes the nodes of one run. Padding rows are computed as well, except where they would access the
/// cache.
struct FloatRun::Step {
    FloatRun& run;
    const Observer& observe;

    const Graph& graph() const { return *run.graph_; }
    const record::Program& program() const { return *graph().program; }
    int64_t rows(GraphValueId id) const { return run.pass_.rows(graph()[id]); }
    int64_t dim(GraphValueId id) const { return graph()[id].dim; }
    float* row(GraphValueId id, int64_t r) const { return run.slot(id) + r * dim(id); }

    void show(GraphValueId id) const {
        if (observe) observe(id, {run.slot(id), static_cast<size_t>(rows(id) * dim(id))});
    }
    template <class Fn>
    void each_row(GraphValueId x, GraphValueId y, const Fn& fn) const {
        for (int64_t r = 0; r < rows(y); ++r) fn(row(x, r), row(y, r), r);
        show(y);
    }
    /// Calls fn(values of a head in a row of `id`, KV head, position of the row) for each row and head.
    template <class Fn>
    void each_head(GraphValueId id, record::CacheId cache, int64_t n_head, const Fn& fn) const {
        const int64_t per_kv = n_head / program()[cache].where.n_head_kv;
        for (int64_t r = 0; r < rows(id); ++r)
            for (int64_t h = 0; h < n_head; ++h) fn(r, h, h / per_kv, run.pass_.position(graph()[id], r));
    }

    void operator()(const LinearNode& node) const {
        ActBuffer x{.dim = dim(node.x), .f32 = run.slot(node.x)},
            y{.dim = dim(node.y), .f32 = run.slot(node.y)};
        run.backend_->linear({.x = &x,
                              .n_tok = rows(node.y),
                              .product = {.w = program()[node.w].view,
                                          .bias = node.bias ? program()[node.bias].view : Vector{},
                                          .scale = node.scale},
                              .y = &y});
        show(node.y);
    }
    void operator()(const NormNode& node) const {
        const Vector& w = program()[node.w].view;
        each_row(node.x, node.y, [&](const float* x, float* y, int64_t) {
            for (int64_t i = 0; i < dim(node.x); i += w.n) normalize(x + i, w, node.eps, y + i);
        });
    }
    void operator()(const RopeNode& node) const {
        each_row(node.x, node.y, [&](const float* x, float* y, int64_t r) {
            const int64_t position = run.pass_.position(graph()[node.x], r);
            for (int64_t i = 0; i < dim(node.x); i += node.head_dim)
                rotate(program()[node.rope], node.kind, position, node.head_dim, x + i, y + i);
        });
    }
    void operator()(const AppendNode& node) const {
        CacheRows& cache = run.caches_[static_cast<size_t>(node.cache.at)];
        const auto n = rows(node.k) * dim(node.k), at = run.pass_.n_past * dim(node.k);
        std::copy_n(run.slot(node.k), n, cache.k.as<float>() + at);
        std::copy_n(run.slot(node.v), n, cache.v.as<float>() + at);
    }
    void operator()(const ScoresNode& node) const {
        const KvLayer& kv = program()[node.cache].where;
        const float* keys = run.caches_[static_cast<size_t>(node.cache.at)].k.as<float>();
        each_head(node.y, node.cache, node.n_head, [&](int64_t r, int64_t h, int64_t g, int64_t position) {
            const float* q = row(node.q, r) + h * kv.k_dim;
            float* y = row(node.y, r) + h * graph().n_ctx;
            const int64_t first = Pass::first_seen(position, node.window);
            for (int64_t p = first; p <= position; ++p)
                y[p] = static_cast<float>(static_cast<double>(node.scale) *
                                          dot(q, keys + (p * kv.n_head_kv + g) * kv.k_dim, kv.k_dim));
            if (observe) observe(node.y, {y + first, static_cast<size_t>(position + 1 - first)});
        });
    }
    void operator()(const SoftmaxNode& node) const {
        for (int64_t r = 0; r < rows(node.y); ++r)
            for (int64_t h = 0; h < node.n_head; ++h) {
                const int64_t position = run.pass_.position(graph()[node.x], r);
                const int64_t first = Pass::first_seen(position, node.window);
                softmax(row(node.x, r) + h * graph().n_ctx + first, position + 1 - first);
            }
    }
    void operator()(const WeighNode& node) const {
        const KvLayer& kv = program()[node.cache].where;
        const float* values = run.caches_[static_cast<size_t>(node.cache.at)].v.as<float>();
        std::vector<double> sum(static_cast<size_t>(kv.k_dim));
        each_head(node.y, node.cache, node.n_head, [&](int64_t r, int64_t h, int64_t g, int64_t position) {
            const float* weights = row(node.p, r) + h * graph().n_ctx;
            std::fill(sum.begin(), sum.end(), 0.0);
            for (int64_t p = Pass::first_seen(position, node.window); p <= position; ++p) {
                const float* v = values + (p * kv.n_head_kv + g) * kv.k_dim;
                for (size_t i = 0; i < sum.size(); ++i)
                    sum[i] += static_cast<double>(weights[p]) * static_cast<double>(v[i]);
            }
            std::transform(sum.begin(), sum.end(), row(node.y, r) + h * kv.k_dim,
                           [](double x) { return static_cast<float>(x); });
        });
        show(node.y);
    }
    void operator()(const FunctionNode& node) const {
        each_row(node.x, node.y, [&](const float* x, float* y, int64_t) {
            for (int64_t i = 0; i < dim(node.y); ++i)
                y[i] = static_cast<float>(value_of(node.function, static_cast<double>(x[i])));
        });
    }
    void operator()(const MulNode& node) const {
        each_row(node.a, node.y, [&](const float* a, float* y, int64_t r) {
            std::transform(a, a + dim(node.y), row(node.b, r), y, std::multiplies<float>());
        });
    }
    void operator()(const AddNode& node) const {
        each_row(node.a, node.y, [&](const float* a, float* y, int64_t r) {
            std::transform(a, a + dim(node.y), row(node.b, r), y, std::plus<float>());
        });
    }
    void operator()(const LastRowNode& node) const {
        std::copy_n(row(node.x, run.pass_.n_valid - 1), dim(node.y), run.slot(node.y));
        show(node.y);
    }
};

Result<FloatRun> FloatRun::create(const Graph& graph, Backend& backend) {
    FloatRun run(graph, backend);
    const record::Program& program = *graph.program;
    std::vector<bool> is_cached(program.caches.size());
    for (const Node& node : graph.nodes) {
        if (const auto* append = std::get_if<AppendNode>(&node))
            is_cached[static_cast<size_t>(append->cache.at)] = true;
        const auto* linear = std::get_if<LinearNode>(&node);
        if (linear && program[linear->w].view.layout != Layout::Rows)
            return fail(ErrorCode::Unsupported, "%s: expected rows as in the file, found a packed layout",
                        program[linear->w].tensor.name.c_str());
    }
    std::vector<int64_t> n_floats(static_cast<size_t>(graph.n_slots));
    for (const GraphValue& value : graph.values) {
        int64_t& n = n_floats[static_cast<size_t>(value.slot)];
        n = std::max(n, value.rows * value.dim);
    }
    for (const int64_t n : n_floats) {
        TSR_TRY(Buffer slot, Buffer::create(static_cast<size_t>(n) * sizeof(float), "a graph's values"));
        run.slots_.push_back(std::move(slot));
    }
    for (size_t i = 0; i < program.caches.size(); ++i) {
        const KvLayer& where = program.caches[i].where;
        const int64_t n_positions = is_cached[i] ? graph.n_ctx : 0;
        const auto n_bytes = static_cast<size_t>(n_positions * where.n_head_kv * where.k_dim) * sizeof(float);
        TSR_TRY(Buffer k, Buffer::create(n_bytes, "a graph's keys"));
        TSR_TRY(Buffer v, Buffer::create(n_bytes, "a graph's values of the cache"));
        run.caches_.push_back({std::move(k), std::move(v)});
    }
    run.tokens_.resize(static_cast<size_t>(program.n_tok));
    return run;
}

void FloatRun::run(std::span<const int32_t> tokens, const Observer& observe) {
    TSR_CHECK(!tokens.empty() && tokens.size() <= tokens_.size());
    TSR_CHECK(n_past_ + std::ssize(tokens) <= graph_->n_ctx);
    std::fill(std::copy(tokens.begin(), tokens.end(), tokens_.begin()), tokens_.end(), 0);
    const record::Program& program = *graph_->program;
    const auto& embed = std::get<record::EmbedOp>(program.ops.front().verb);
    const GraphValueId input = graph_->inputs.front();
    ActBuffer x{.dim = (*graph_)[input].dim, .f32 = slot(input)};
    backend_->embed({.table = program[embed.table].view, .tokens = tokens_, .scale = embed.scale, .x = &x});
    run_nodes({.n_valid = std::ssize(tokens), .n_past = n_past_}, observe);
    n_past_ += pass_.n_valid;
}

void FloatRun::run(const Pass& pass, std::span<const float* const> inputs, std::span<float* const> outputs,
                   const Observer& observe) {
    for (size_t i = 0; i < inputs.size(); ++i) {
        const GraphValue& value = (*graph_)[graph_->inputs[i]];
        std::copy_n(inputs[i], pass.n_valid * value.dim, slot(graph_->inputs[i]));
    }
    run_nodes(pass, observe);
    for (size_t i = 0; i < outputs.size(); ++i) {
        const std::span<const float> result = rows(graph_->outputs[i]);
        std::copy(result.begin(), result.end(), outputs[i]);
    }
}

void FloatRun::run_nodes(const Pass& pass, const Observer& observe) {
    pass_ = pass;
    const Step step{*this, observe};
    for (const GraphValueId input : graph_->inputs) step.show(input);
    for (const Node& node : graph_->nodes) std::visit(step, node);
}

std::span<const float> FloatRun::rows(GraphValueId id) {
    const GraphValue& value = (*graph_)[id];
    return {slot(id), static_cast<size_t>(pass_.rows(value) * value.dim)};
}

}  // namespace tessera::npu
