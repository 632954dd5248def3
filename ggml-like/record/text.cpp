// Prints a program: one line per operation, made by a visitor of its fields, and one per value. Fields with
// neutral values (a scale of 1, an absent bias) are left out.
#include <type_traits>

#include "common/expected.h"
#include "common/strings.h"
#include "ggml-like/record/program.h"

namespace tessera::record {

namespace {

std::string shape_text(int64_t n_expert, int64_t rows, int64_t cols) {
    const std::string matrix =
        strf("%lld, %lld]", static_cast<long long>(rows), static_cast<long long>(cols));
    return n_expert > 0 ? strf("[%lld, ", static_cast<long long>(n_expert)) + matrix : "[" + matrix;
}

/// "blk.0.attn_qkv.weight"; "+ROW" follows for a part of a fused tensor that begins at a later row.
std::string tensor_text(const TensorRows& tensor) {
    const std::string name = printable(tensor.name, 400);
    return tensor.row0 > 0 ? name + strf("+%lld", static_cast<long long>(tensor.row0)) : name;
}

std::string layer_text(int32_t layer) { return layer < 0 ? "-" : strf("%d", layer); }

const char* content(const Slot& slot) {
    if (slot.is_routes()) return "routes";
    if (!slot.needs_int8) return "f32";
    return slot.needs_f32 ? "f32 int8" : "int8";
}

std::string value_text(const Program& program, ValueId id) {
    const Slot& slot = program[program[id].slot];
    return strf("%%%d:%s", id.at, slot.name.c_str()) + shape_text(0, program[id].rows, slot.dim);
}

/// "%3:h[8, 64] = norm(x=%2, w=blk.0.attn_norm.weight, eps=1e-05)".
struct OpText {
    const Program& program;
    std::string left = {}, right = {};

    void operator()(FieldName name, const Read& role, const Read&) {
        if (role.value) add(name, strf("%%%d", role.value.at));
    }
    void operator()(FieldName, const Write& role, const Write&) { write(role.value); }
    void operator()(FieldName name, const Scratch& role, const Scratch&) {
        if (role.value) add(name, value_text(program, role.value));
    }
    void operator()(FieldName, const Update& role, const Update&) {
        write(role.after);
        if (role.before) add("onto", strf("%%%d", role.before.at));
    }
    void operator()(FieldName name, WeightId id, WeightId) {
        if (!id) return;
        const Weight& w = program[id].view;
        add(name, tensor_text(program[id].tensor) + " " + std::string(type_info(w.type).name) +
                      shape_text(w.n_expert, w.n_out, w.n_in));
    }
    void operator()(FieldName name, VectorId id, VectorId) {
        if (id) add(name, tensor_text(program[id].tensor));
    }
    void operator()(FieldName name, RopeId id, RopeId) { add(name, strf("%d", id.at)); }
    void operator()(FieldName name, CacheId id, CacheId) { add(name, strf("%d", id.at)); }
    void operator()(FieldName, RowCount, RowCount) {}
    void operator()(FieldName, Tokens, Tokens) {}
    void operator()(FieldName, Positions, Positions) {}
    template <class Enum>
    void operator()(FieldName name, Enum value, Enum neutral) requires std::is_enum_v<Enum> {
        if (value != neutral) add(name, name_of(value));
    }
    void operator()(FieldName name, bool value, bool) {
        if (value) add(name, "yes");
    }
    template <class Number>
    void operator()(FieldName name, Number value, Number neutral) requires std::is_arithmetic_v<Number> {
        if (value != neutral) add(name, strf("%g", static_cast<double>(value)));
    }

    void write(ValueId id) { left += (left.empty() ? "" : ", ") + value_text(program, id); }
    void add(FieldName name, const std::string& text) {
        right += (right.empty() ? "" : ", ") + name.text() + "=" + text;
    }
};

std::string ops_text(const Program& program) {
    std::string out = "   op layer\n";
    for (size_t i = 0; i < program.ops.size(); ++i) {
        const Op& op = program.ops[i];
        OpText text{program};
        op.fields_with_neutral(text);
        out += strf("%5zu %5s  ", i, layer_text(op.layer).c_str()) + text.left + " = " + op.name() + "(" +
               text.right + ")\n";
    }
    return out;
}

std::string constants_text(const Program& program) {
    std::string out;
    for (size_t i = 0; i < program.ropes.size(); ++i) {
        const Rope& rope = program.ropes[i];
        out += strf("rope %zu: %s, n_rot %zu, magnitude %g\n", i, name_of(rope.kind), 2 * rope.freq.size(),
                    static_cast<double>(rope.magnitude));
    }
    for (size_t i = 0; i < program.caches.size(); ++i) {
        const Cache& cache = program.caches[i];
        const KvLayer& kv = cache.where;
        out += strf("cache %zu: %lld heads, K %s of %lld, V %s of %lld, layer group %d\n", i,
                    static_cast<long long>(kv.n_head_kv), std::string(type_info(kv.k_type).name).c_str(),
                    static_cast<long long>(kv.k_dim), std::string(type_info(kv.v_type).name).c_str(),
                    static_cast<long long>(kv.v_dim), cache.layer_group);
    }
    return out;
}

std::string values_text(const Program& program) {
    std::string out = strf("%-34s %-9s %11s %11s %10s\n", "value", "holds", "ops", "offset", "bytes");
    for (size_t i = 0; i < program.values.size(); ++i) {
        const ValueId id{static_cast<int32_t>(i)};
        const Value& value = program[id];
        const Slot& slot = program[value.slot];
        out += strf("%-34s %-9s %11s %11zu %10zu\n", value_text(program, id).c_str(), content(slot),
                    strf("%d-%d", value.first, value.last).c_str(), slot.offset, slot.n_bytes);
    }
    return out;
}

}  // namespace

std::string to_text(const Program& program) {
    size_t slot_bytes = 0;
    for (const Slot& slot : program.slots) slot_bytes += slot.n_bytes;
    std::string out = strf("%lld tokens, %zu operations on %zu matrices, %zu vectors and %zu values\n",
                           static_cast<long long>(program.n_tok), program.ops.size(), program.weights.size(),
                           program.vectors.size(), program.values.size());
    out += strf("arena of %s, at least %s (apart %s)\n\n", format_bytes(program.arena_bytes).c_str(),
                format_bytes(program.least_bytes).c_str(), format_bytes(slot_bytes).c_str());
    return out + constants_text(program) + "\n" + ops_text(program) + "\n" + values_text(program);
}

}  // namespace tessera::record
