// Derives layers, lifetimes, sizes and the arena layout from a program's operations, each with a visitor over
// the lists of ggml-like/ops.h. Printing is in text.cpp, recording in recorder.cpp, execution in
// replay.cpp.
#include "ggml-like/record/program.h"

#include <algorithm>

#include "common/arena.h"
#include "common/arena_plan.h"
#include "ggml-like/act_layout.h"

namespace tessera::record {

namespace {

/// A visitor that handles values and ignores other fields.
template <class Fn>
struct ValueVisitor {
    Fn fn;  // fn(id, is_written)

    void operator()(FieldName, const Read& role) const { visit(role.value, false); }
    void operator()(FieldName, const Write& role) const { visit(role.value, true); }
    void operator()(FieldName, const Scratch& role) const { visit(role.value, true); }
    void operator()(FieldName, const Update& role) const {
        visit(role.before, false);
        visit(role.after, true);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) const {}

    void visit(ValueId id, bool is_written) const {
        if (id) fn(id, is_written);
    }
};

/// The layer of an operation's parameters.
struct LayerVisitor {
    const Program& program;
    bool has_params = false;
    int32_t layer = -1;

    void operator()(FieldName, WeightId id) { take(id); }
    void operator()(FieldName, VectorId id) { take(id); }
    void operator()(FieldName, RopeId) { has_params = true; }
    template <class... Other>
    void operator()(FieldName, const Other&...) const {}

    template <class ParamId>
    void take(ParamId id) {
        if (!id) return;
        has_params = true;
        layer = std::max(layer, program[id].tensor.layer);
    }
};

void find_lifetimes(Program& program) {
    for (size_t i = 0; i < program.ops.size(); ++i) {
        const auto at = static_cast<int32_t>(i);
        program.ops[i].fields(ValueVisitor{[&](ValueId id, bool is_written) {
            Value& value = program.values[static_cast<size_t>(id.at)];
            if (is_written) value.first = at;
            value.last = at;
        }});
    }
    const auto end = static_cast<int32_t>(program.ops.size()) - 1;
    if (program.output) program.values[static_cast<size_t>(program.output.at)].last = end;
    for (Slot& slot : program.slots) slot.first = end;
    for (const Value& value : program.values) {
        Slot& slot = program.slots[static_cast<size_t>(value.slot.at)];
        slot.first = std::min(slot.first, value.first);
        slot.last = std::max(slot.last, value.last);
    }
}

/// Walks backwards from the last operation, so that the layer of a value's reader is set before that of its
/// writer.
void find_layers(Program& program) {
    constexpr int32_t kUnread = -2;
    std::vector<int32_t> of_readers(program.values.size(), kUnread);
    for (size_t i = program.ops.size(); i-- > 0;) {
        Op& op = program.ops[i];
        LayerVisitor params{program};
        op.fields(params);
        op.layer = params.layer;
        int32_t readers = kUnread;
        op.fields(ValueVisitor{[&](ValueId id, bool is_written) {
            const int32_t layer = of_readers[static_cast<size_t>(id.at)];
            if (is_written && layer != kUnread) readers = readers == kUnread || readers == layer ? layer : -1;
        }});
        if (!params.has_params && readers != kUnread) op.layer = readers;
        op.fields(ValueVisitor{[&](ValueId id, bool is_written) {
            int32_t& layer = of_readers[static_cast<size_t>(id.at)];
            if (!is_written) layer = layer == kUnread || layer == op.layer ? op.layer : -1;
        }});
    }
}

/// The slots that a product or another reader of an operation needs as floats or int8.
struct Readers {
    Program& program;
    std::vector<ValueId> inputs = {};  // of the operation's products

    void operator()(const Read& x, WeightId w) {
        inputs.push_back(x.value);
        need(x.value, w);
    }
    void operator()(const Read& x, WeightId w, const Read&) { (*this)(x, w); }
    void operator()(const Read& x, WeightId w, const Read&, const Scratch& gathered) {
        (*this)(x, w);
        need(gathered.value, w);
    }
    void need(ValueId id, WeightId w) {
        Slot& slot = slot_of(id);
        (w && program[w].view.takes_int8() ? slot.needs_int8 : slot.needs_f32) = true;
    }
    Slot& slot_of(ValueId id) { return program.slots[static_cast<size_t>(program[id].slot.at)]; }
};

/// A value has an int8 image if an int8 kernel reads it. It has floats if anything else does, or if its
/// producer writes them in any case.
void find_needs(Program& program, bool all_floats) {
    for (const Op& op : program.ops) {
        Readers readers{program};
        op.products(readers);
        op.fields(ValueVisitor{[&](ValueId id, bool is_written) {
            const auto& inputs = readers.inputs;
            if (!is_written && std::find(inputs.begin(), inputs.end(), id) == inputs.end())
                readers.slot_of(id).needs_f32 = true;
        }});
    }
    for (Slot& slot : program.slots) slot.needs_f32 |= all_floats || !slot.skips_floats;
    if (program.output) program.slots[static_cast<size_t>(program[program.output].slot.at)].needs_f32 = true;
}

void plan_memory(Program& program) {
    std::vector<Lifetime> lifetimes;
    for (Slot& slot : program.slots) {
        ArenaSize size;
        if (slot.is_routes()) {
            MoeRoutes routes = slot.routes();
            allocate_routes(routes, slot.rows, size);
        } else {
            ActBuffer act = slot.act();
            allocate_act(act, slot.rows, size);
        }
        slot.n_bytes = size.bytes();
        lifetimes.push_back({slot.n_bytes, slot.first, slot.last});
    }
    const ArenaPlan plan = plan_arena(lifetimes);
    for (size_t i = 0; i < program.slots.size(); ++i) program.slots[i].offset = plan.offsets[i];
    program.arena_bytes = plan.n_bytes;
    program.least_bytes = plan.least;
}

}  // namespace

ActBuffer Slot::act() const {
    return {.name = name.c_str(), .dim = dim, .needs_f32 = needs_f32, .needs_int8 = needs_int8};
}

MoeRoutes Slot::routes() const { return {.n_expert = n_expert, .n_used = dim}; }

void complete(Program& program, bool all_floats) {
    find_lifetimes(program);
    find_layers(program);
    find_needs(program, all_floats);
    plan_memory(program);
}

const char* name_of(Rows rows) { return rows == Rows::All ? "all" : "last"; }

const char* name_of(RopeKind kind) {
    switch (kind) {
        case RopeKind::None:
            return "none";
        case RopeKind::Norm:
            return "norm";
        case RopeKind::Neox:
            return "neox";
    }
    return "";
}

const char* name_of(Activation activation) {
    switch (activation) {
        case Activation::None:
            return "none";
        case Activation::Silu:
            return "silu";
        case Activation::Gelu:
            return "gelu";
        case Activation::ClampedSilu:
            return "clamped_silu";
    }
    return "";
}

const char* name_of(RouterKind kind) {
    return kind == RouterKind::SoftmaxOverAll ? "softmax_over_all" : "softmax_over_selected";
}

}  // namespace tessera::record
