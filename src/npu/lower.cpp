// Splits the program's operations into nodes. An operation is one parallel region of the CPU; on the device
// each product, norm and rotation in it has a result with its own encoding. partition.cpp decides which
// operations can be split. Slots follow the names of results, so a layer reuses those of the previous one,
// like the buffers of the forward pass.
#include "src/npu/lower.h"

#include <map>

namespace tessera::npu {

namespace {

using record::Program;
using record::ValueId;
using record::VectorId;
using record::WeightId;

/// Calls fn(id) for a reference to each value id that a node reads or writes.
template <class Fn>
struct EachValue {
    const Fn& fn;

    void operator()(LinearNode& n) const { all(n.x, n.y); }
    void operator()(NormNode& n) const { all(n.x, n.y); }
    void operator()(RopeNode& n) const { all(n.x, n.y); }
    void operator()(AppendNode& n) const { all(n.k, n.v); }
    void operator()(ScoresNode& n) const { all(n.q, n.y); }
    void operator()(SoftmaxNode& n) const { all(n.x, n.y); }
    void operator()(WeighNode& n) const { all(n.p, n.y); }
    void operator()(FunctionNode& n) const { all(n.x, n.y); }
    void operator()(MulNode& n) const { all(n.a, n.b, n.y); }
    void operator()(AddNode& n) const { all(n.a, n.b, n.y); }
    void operator()(LastRowNode& n) const { all(n.x, n.y); }

    template <class... Ids>
    void all(Ids&... ids) const {
        (fn(ids), ...);
    }
};

template <class Fn>
void each_value(Graph& graph, const Fn& fn) {
    for (Node& node : graph.nodes) std::visit(EachValue<Fn>{fn}, node);
    for (auto* ids : {&graph.inputs, &graph.outputs})
        for (GraphValueId& id : *ids) fn(id);
}

/// Removes values and slots that no node uses.
void drop_unused(Graph& graph) {
    std::vector<int32_t> at(graph.values.size(), -1), slot_at(static_cast<size_t>(graph.n_slots), -1);
    each_value(graph, [&](GraphValueId& id) { at[static_cast<size_t>(id.at)] = 0; });
    std::vector<GraphValue> kept;
    graph.n_slots = 0;
    for (size_t i = 0; i < at.size(); ++i) {
        if (at[i] < 0) continue;
        at[i] = static_cast<int32_t>(kept.size());
        kept.push_back(std::move(graph.values[i]));
        int32_t& slot = slot_at[static_cast<size_t>(kept.back().slot)];
        if (slot < 0) slot = graph.n_slots++;
        kept.back().slot = slot;
    }
    graph.values = std::move(kept);
    each_value(graph, [&](GraphValueId& id) { id.at = at[static_cast<size_t>(id.at)]; });
}

class Lowering {
  public:
    Lowering(const Program& program, int64_t n_ctx)
        : program_(program), of_(program.values.size()), rope_of_(program.values.size()) {
        graph_.program = &program;
        graph_.n_ctx = n_ctx;
    }

    /// Values are created for all operations, so that their names match the whole program; nodes only for the
    /// range.
    Graph take(const DeviceRange& range) {
        for (int32_t i = 0; i <= range.last_op; ++i) {
            const record::Op& op = program_.ops[static_cast<size_t>(i)];
            prefix_ = op.layer < 0 ? "" : "blk." + std::to_string(op.layer) + ".";
            std::visit(*this, op.verb);
            if (i < range.first_op) graph_.nodes.clear();
        }
        for (const ValueId id : range.inputs) graph_.inputs.push_back(of(id));
        for (const ValueId id : range.outputs) graph_.outputs.push_back(of(id));
        graph_.n_slots = static_cast<int32_t>(slots_.size());
        drop_unused(graph_);
        return std::move(graph_);
    }

    void operator()(const record::EmbedOp& op) {
        set(op.x.value, add("x", program_.n_tok, program_[program_[op.x.value].slot].dim));
    }
    void operator()(const record::RopeAnglesOp& op) {
        rope_of_[static_cast<size_t>(op.angles.value.at)] = op.rope;
    }
    void operator()(const record::NormOp& op) {
        set(op.y.value, norm(of(op.x.value), op.w, op.eps, slot_name(op.y.value)));
    }
    void operator()(const record::AddNormOp& op) {
        const GraphValueId delta = norm(of(op.delta.value), op.w, op.eps, "normed_delta");
        update(op.x, delta);
    }
    void operator()(const record::CopyOp& op) { set(op.y.value, of(op.x.value)); }
    void operator()(const record::GatherRowsOp& op) {
        const GraphValueId before = of(op.a.before);
        if (graph_[before].is_last) return set(op.a.after, before);
        set(op.a.after, last_row(before, "last_" + slot_name(op.a.before)));
    }
    void operator()(const record::LinearOp& op) {
        const std::string name = op.product.add ? "delta" : slot_name(op.y.after);
        const GraphValueId y = linear(of(op.x.value), op.product, name);
        if (!op.product.add) return set(op.y.after, y);
        update(op.y, y);
    }
    void operator()(const record::QkvOp& op) {
        const GraphValueId x = of(op.x.value);
        const GraphValueId q = rotated(op, linear(x, op.q, "q_product"), op.q_norm, "q");
        const GraphValueId k = rotated(op, linear(x, op.k, "k_product"), op.k_norm, "k");
        const GraphValueId v = linear(x, op.v, "v");
        for (const GraphValueId id : {k, v}) graph_.values[static_cast<size_t>(id.at)].is_cached = true;
        graph_.nodes.push_back(AppendNode{k, v, op.cache});
        set(op.queries.value, q);
    }
    void operator()(const record::AttendOp& op) {
        GraphValueId q = of(op.q.value);
        if (op.segments == record::Rows::Last && !graph_[q].is_last) q = last_row(q, "last_q");
        const int64_t dim = op.n_head * program_[op.cache].where.v_dim;
        const GraphValueId scores = like(q, "scores", op.n_head * graph_.n_ctx);
        graph_.nodes.push_back(ScoresNode{q, op.cache, op.n_head, op.window, op.scale, scores});
        const GraphValueId p = like(q, "probabilities", op.n_head * graph_.n_ctx, "scores");
        graph_.nodes.push_back(SoftmaxNode{scores, op.n_head, op.window, p});
        const GraphValueId y = like(q, slot_name(op.y.value), dim);
        graph_.nodes.push_back(WeighNode{p, op.cache, op.n_head, op.window, y});
        set(op.y.value, y);
    }
    void operator()(const record::FfnGateUpOp& op) {
        const GraphValueId x = of(op.x.value);
        const GraphValueId gate = linear(x, op.gate, "gate");
        const GraphValueId up = linear(x, op.up, "up");
        const GraphValueId opened = like(gate, "activation", graph_[gate].dim);
        const Function function = op.gate.activation == Activation::Gelu ? Function::Gelu : Function::Silu;
        graph_.nodes.push_back(FunctionNode{gate, function, opened});
        const GraphValueId y = like(gate, slot_name(op.y.value), graph_[gate].dim);
        graph_.nodes.push_back(MulNode{opened, up, y});
        set(op.y.value, y);
    }
    /// Other operations are never part of a range, but the values that they write need a name.
    template <class Other>
    void operator()(const Other& op) {
        Other::fields(NameWritten{*this}, op);
    }

  private:
    struct NameWritten {
        Lowering& lowering;

        void operator()(FieldName, const record::Write& role) const { write(role.value); }
        void operator()(FieldName, const record::Update& role) const {
            if (!role.before) return write(role.after);
            const GraphValueId before = lowering.of(role.before);
            const std::string& name = lowering.slot_name(role.before);
            lowering.set(role.after, lowering.like(before, name, lowering.graph_[before].dim));
        }
        template <class Other>
        void operator()(FieldName, const Other&) const {}

        void write(ValueId id) const {
            const record::Value& value = lowering.program_[id];
            const record::Slot& slot = lowering.program_[value.slot];
            lowering.set(id, lowering.add(slot.name, value.rows, slot.dim));
        }
    };

    GraphValueId of(record::ValueId id) const { return of_[static_cast<size_t>(id.at)]; }
    void set(record::ValueId id, GraphValueId value) { of_[static_cast<size_t>(id.at)] = value; }
    const std::string& slot_name(record::ValueId id) const { return program_[program_[id].slot].name; }

    int32_t slot_of(const std::string& name) {
        return slots_.emplace(name, static_cast<int32_t>(slots_.size())).first->second;
    }
    GraphValueId add(const std::string& name, int64_t rows, int64_t dim) {
        std::string full = prefix_ + name;
        if (const int seen = ++n_named_[full]; seen > 1) full += "." + std::to_string(seen);
        graph_.values.push_back({.name = full, .slot = slot_of(name), .rows = rows, .dim = dim});
        return {static_cast<int32_t>(graph_.values.size()) - 1};
    }
    /// A value with the rows of `model`, in the slot of that name.
    GraphValueId like(GraphValueId model, const std::string& name, int64_t dim,
                      const std::string& slot = "") {
        const GraphValueId id = add(name, graph_[model].rows, dim);
        GraphValue& value = graph_.values.back();
        value.is_last = graph_[model].is_last;
        if (!slot.empty()) value.slot = slot_of(slot);
        return id;
    }
    GraphValueId last_row(GraphValueId x, const std::string& name) {
        const GraphValueId y = add(name, 1, graph_[x].dim);
        graph_.values.back().is_last = true;
        graph_.nodes.push_back(LastRowNode{x, y});
        return y;
    }
    GraphValueId linear(GraphValueId x, const Product<record::Recorded>& product, const std::string& name) {
        const GraphValueId y = like(x, name, program_[product.w].view.n_out);
        graph_.nodes.push_back(LinearNode{x, product.w, product.bias, product.scale, y});
        return y;
    }
    GraphValueId norm(GraphValueId x, VectorId w, float eps, const std::string& name) {
        const GraphValueId y = like(x, name, graph_[x].dim);
        graph_.nodes.push_back(NormNode{x, w, eps, y});
        return y;
    }
    /// Queries or keys after their product: the optional norm, then RoPE.
    GraphValueId rotated(const record::QkvOp& op, GraphValueId x, VectorId w, const std::string& name) {
        const bool rotates = op.rope != RopeKind::None;
        if (w) x = norm(x, w, op.norm_eps, rotates ? name + "_normed" : name);
        if (!rotates) return x;
        const GraphValueId y = like(x, name, graph_[x].dim);
        graph_.nodes.push_back(RopeNode{x, rope_of_[static_cast<size_t>(op.angles.value.at)], op.rope,
                                        program_[op.cache].where.k_dim, y});
        return y;
    }
    void update(const record::Update& role, GraphValueId delta) {
        const GraphValueId before = of(role.before);
        const GraphValueId after = like(before, slot_name(role.before), graph_[before].dim);
        graph_.nodes.push_back(AddNode{before, delta, after});
        set(role.after, after);
    }

    const Program& program_;
    std::vector<GraphValueId> of_;         // indexed by the program's values
    std::vector<record::RopeId> rope_of_;  // for the program's values that are RoPE angles
    std::string prefix_;                   // prefix of names in the current layer
    std::map<std::string, int> n_named_;
    std::map<std::string, int32_t> slots_;
    Graph graph_;
};

}  // namespace

Result<Graph> lower(const Program& program, const DeviceRange& range, int64_t n_ctx) {
    if (n_ctx < program.n_tok)
        return fail(ErrorCode::InvalidArgument,
                    "a context of %lld positions: expected at least the %lld of a pass",
                    static_cast<long long>(n_ctx), static_cast<long long>(program.n_tok));
    return Lowering(program, n_ctx).take(range);
}

Result<Graph> lower(const Program& program, int64_t n_ctx) {
    TSR_TRY(const DeviceRange range, whole_range(program));
    return lower(program, range, n_ctx);
}

}  // namespace tessera::npu
