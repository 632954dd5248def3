// tessera program: the operations of a model's forward pass for a fixed number of tokens, recorded without
// computing anything, and the memory plan of its values.
#include <type_traits>

#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "src/forward/record.h"

namespace tessera {

namespace {

constexpr std::pair<const char*, RecordedLogits> kLogitsNames[] = {
    {"none", RecordedLogits::None}, {"last", RecordedLogits::Last}, {"all", RecordedLogits::All}};

struct ProgramArgs {
    FileOptions file;
    SessionFlags session;
    int64_t n_tok = 1;
    RecordedLogits logits = RecordedLogits::Last;
    bool precise = false, json = false;
};

/// A visitor that makes an object of an operation's fields: ids as numbers, null where there is nothing.
struct OpJson {
    Json out;

    template <class Row>
    static Json id_json(record::Id<Row> id) {
        return id ? Json(id.at) : Json();
    }
    void operator()(FieldName name, const record::Read& role) {
        out["reads"][name.text()] = id_json(role.value);
    }
    void operator()(FieldName name, const record::Write& role) {
        out["writes"][name.text()] = id_json(role.value);
    }
    void operator()(FieldName name, const record::Scratch& role) {
        out["scratch"][name.text()] = id_json(role.value);
    }
    void operator()(FieldName name, const record::Update& role) {
        if (!role.before) return (*this)(name, record::Write{role.after});
        out["updates"][name.text()] = {{"before", id_json(role.before)}, {"after", id_json(role.after)}};
    }
    void operator()(FieldName name, record::WeightId id) { out["weights"][name.text()] = id_json(id); }
    void operator()(FieldName name, record::VectorId id) { out["vectors"][name.text()] = id_json(id); }
    void operator()(FieldName, record::RopeId id) { out["rope_table"] = id_json(id); }
    void operator()(FieldName name, record::CacheId id) { out[name.text()] = id_json(id); }
    template <class Enum>
    void operator()(FieldName name, Enum value) requires std::is_enum_v<Enum> {
        out[name.text()] = record::name_of(value);
    }
    template <class Number>
    void operator()(FieldName name, Number value) requires std::is_arithmetic_v<Number> {
        out[name.text()] = value;
    }
    void operator()(FieldName, RowCount) {}
    void operator()(FieldName, record::Tokens) {}
    void operator()(FieldName, record::Positions) {}
};

Json op_json(const record::Op& op) {
    OpJson fields{{{"verb", op.name()}, {"layer", op.layer < 0 ? Json() : Json(op.layer)}}};
    op.fields(fields);
    return std::move(fields.out);
}

Json value_json(const record::Program& program, const record::Value& value) {
    const record::Slot& slot = program[value.slot];
    return {{"name", slot.name},
            {"shape", {value.rows, slot.dim}},
            {"f32", !slot.is_routes() && slot.needs_f32},
            {"int8", slot.needs_int8},
            {"first_op", value.first},
            {"last_op", value.last},
            {"slot", value.slot.at}};
}

Json slot_json(const record::Slot& slot) {
    return {
        {"offset", slot.offset}, {"bytes", slot.n_bytes}, {"first_op", slot.first}, {"last_op", slot.last}};
}

Json tensor_json(const TensorRows& tensor) {
    return {{"tensor", tensor.name},
            {"row0", tensor.row0},
            {"layer", tensor.layer < 0 ? Json() : Json(tensor.layer)}};
}

Json weight_json(const record::Param<Weight>& param) {
    Json out = tensor_json(param.tensor);
    const Weight& w = param.view;
    out["type"] = std::string(type_info(w.type).name);
    out["shape"] = w.n_expert > 0 ? Json{w.n_expert, w.n_out, w.n_in} : Json{w.n_out, w.n_in};
    return out;
}

Json vector_json(const record::Param<Vector>& param) {
    Json out = tensor_json(param.tensor);
    out["shape"] = Json::array({param.view.n});
    return out;
}

Json rope_json(const record::Rope& rope) {
    return {{"kind", record::name_of(rope.kind)}, {"freq", rope.freq}, {"magnitude", rope.magnitude}};
}

Json cache_json(const record::Cache& cache) {
    return {{"n_head_kv", cache.where.n_head_kv},
            {"k_dim", cache.where.k_dim},
            {"v_dim", cache.where.v_dim},
            {"k_type", std::string(type_info(cache.where.k_type).name)},
            {"v_type", std::string(type_info(cache.where.v_type).name)},
            {"layer_group", cache.layer_group}};
}

template <class Row, class Fn>
Json array_json(const std::vector<Row>& rows, const Fn& row_json) {
    Json out = Json::array();
    for (const Row& row : rows) out.push_back(row_json(row));
    return out;
}

Json program_json(const Model& model, const record::Program& p) {
    Json out = {{"model", model.file().path()},
                {"n_tok", p.n_tok},
                {"arena_bytes", p.arena_bytes},
                {"least_bytes", p.least_bytes},
                {"output", OpJson::id_json(p.output)}};
    out["ops"] = array_json(p.ops, op_json);
    out["values"] = array_json(p.values, [&p](const record::Value& value) { return value_json(p, value); });
    out["slots"] = array_json(p.slots, slot_json);
    out["weights"] = array_json(p.weights, weight_json);
    out["vectors"] = array_json(p.vectors, vector_json);
    out["ropes"] = array_json(p.ropes, rope_json);
    out["caches"] = array_json(p.caches, cache_json);
    return out;
}

Result<void> print_program(const ProgramArgs& args) {
    TSR_TRY(gguf::File file, args.file.open());
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(const auto model, Model::bind(std::move(file), *isa->table, !args.precise));
    TSR_TRY(const engine::CachePlan cache, engine::plan_cache(*model, args.session.session()));
    TSR_TRY_VOID(engine::check_range("tokens of a pass", args.n_tok, 1, cache.n_ctx));
    const record::Program program = record_forward(
        *model, cache.layout, {.n_tok = args.n_tok, .n_ctx = cache.n_ctx, .logits = args.logits});
    return console::print(args.json ? json_line(program_json(*model, program)) : record::to_text(program));
}

Action declare_program(Options& options) {
    auto args = std::make_shared<ProgramArgs>();
    args->file.declare(options);
    options.flag("--precise", args->precise, "Record the pass with float activations, without int8.");
    options.group("Pass");
    options.integer("--ar", args->n_tok, 1, 4096, "Tokens in the pass.");
    options.parsed(
        "--logits", "none|last|all",
        [args](const std::string& text) -> Result<void> {
            for (const auto& [name, logits] : kLogitsNames) {
                if (text != name) continue;
                args->logits = logits;
                return {};
            }
            return fail(ErrorCode::InvalidArgument, "expected none, last or all, found '%s'",
                        printable(text).c_str());
        },
        "Positions whose logits are computed. (default: last)");
    args->session.declare_ctx(options);
    args->session.declare_kv(options);
    options.group("Output");
    options.flag("--json", args->json, "Print one JSON object; operations refer to its other tables by row.");
    return [args] { return print_program(*args); };
}

}  // namespace

const Command kProgram = {.name = "program",
                          .summary = "list the operations of a forward pass",
                          .help =
                              "Records the forward pass of a model for a fixed number of tokens, without "
                              "computing it, and prints its "
                              "operations with inputs, outputs and weights, and the offset of each value in "
                              "the smallest memory, in "
                              "bytes.",
                          .examples =
                              "  tessera program model.gguf\n"
                              "  tessera program model.gguf --ar 128 --logits none\n"
                              "  tessera program model.gguf --ar 32 --json | jq .arena_bytes\n",
                          .declare = declare_program};

}  // namespace tessera
