// First each operation is checked by itself: device support and user selection. Then consequences for
// neighbours: keys and values belong to one side, and consecutive operations without a matrix product do not
// repay two copies through memory.
#include "src/npu/partition.h"

#include <algorithm>
#include <set>

#include "common/strings.h"

namespace tessera::npu {

namespace {

using record::Program;
using record::Read;
using record::Update;
using record::ValueId;
using record::VectorId;
using record::WeightId;
using record::Write;

constexpr const char* kNotSelected = "it was not selected";

Placement left(LeftOut why, std::string reason) { return {why, std::move(reason), -1}; }

/// The reason why an operation is not supported; `device` and `recipe` may be null to skip their checks.
struct Objection {
    const Program& program;
    const HtpDevice* device;
    const Recipe* recipe;

    Placement operator()(const record::EmbedOp&) const { return left(LeftOut::Lookup, "embedding lookup"); }
    Placement operator()(const record::RopeAnglesOp&) const {
        return left(LeftOut::Angles, "RoPE angles are compiled in as a table");
    }
    Placement operator()(const record::NormOp& op) const { return norm(op.w); }
    Placement operator()(const record::AddNormOp& op) const { return norm(op.w); }
    Placement operator()(const record::CopyOp&) const { return {}; }
    Placement operator()(const record::GatherRowsOp&) const { return {}; }
    Placement operator()(const record::LinearOp& op) const { return products({&op.product}); }
    Placement operator()(const record::QkvOp& op) const {
        if (op.attn_temp.strength != 0)
            return left(LeftOut::AttnTempScaling, "attention temperature scaling");
        const KvLayer& kv = program[op.cache].where;
        if (kv.k_dim != kv.v_dim)
            return left(LeftOut::HeadSizes, "heads with " + std::to_string(kv.k_dim) + " key and " +
                                                std::to_string(kv.v_dim) + " value elements");
        return products({&op.q, &op.k, &op.v});
    }
    Placement operator()(const record::AttendOp& op) const {
        if (op.softcap > 0) return left(LeftOut::SoftCap, "soft-capped attention scores");
        return op.sinks ? left(LeftOut::Sinks, "attention sinks") : Placement();
    }
    Placement operator()(const record::FfnGateUpOp& op) const {
        if (op.gate.activation == Activation::ClampedSilu)
            return left(LeftOut::Function, "an activation of two values");
        if (op.shared_expert_gate) return left(LeftOut::TokenGate, "a shared expert's gate");
        const Placement gate = matrix(op.gate.w);
        return gate.why == LeftOut::No ? matrix(op.up.w) : gate;
    }
    /// Without nodes (lower.cpp): those of experts.
    template <class Other>
    Placement operator()(const Other& op) const {
        if (std::string_view(op_kind(op)).starts_with("moe_"))
            return left(LeftOut::Experts, "experts are chosen at run time");
        return left(LeftOut::Operation, "the device has no such operation");
    }

    Placement norm(VectorId w) const {
        return program[w].view.n > 65536 ? left(LeftOut::WideNorm, "a norm over more than 65536 values")
                                         : Placement();
    }
    Placement matrix(WeightId id) const {
        const Weight& w = program[id].view;
        if (w.n_in % 32 != 0 || w.n_out % 32 != 0)
            return left(LeftOut::Shape, "a matrix [" + std::to_string(w.n_out) + ", " +
                                            std::to_string(w.n_in) + "] whose sides are not multiples of 32");
        if (device && !device->lpbq && recipe->weight_of(program[id].tensor.name).has_blocks())
            return left(LeftOut::Feature, device->name + " does not support 4-bit block weights");
        return {};
    }
    Placement product(const Product<record::Recorded>& product) const {
        if (product.softcap > 0) return left(LeftOut::SoftCap, "soft-capped output");
        if (product.activation != Activation::None)
            return left(LeftOut::Function, "an activation of a single product");
        if (!(product.scale > 0)) return left(LeftOut::Factor, "an output scale that is not positive");
        return matrix(product.w);
    }
    Placement products(std::initializer_list<const Product<record::Recorded>*> all) const {
        for (const auto* one : all)
            if (Placement found = product(*one); found.why != LeftOut::No) return found;
        return {};
    }
};

std::vector<Placement> objections(const Program& program, const HtpDevice* device, const Recipe* recipe) {
    std::vector<Placement> out;
    for (const record::Op& op : program.ops)
        out.push_back(std::visit(Objection{program, device, recipe}, op.verb));
    return out;
}

/// Whether an operation adds to the residual stream.
bool adds_to_stream(const record::Op& op) {
    const auto* linear = std::get_if<record::LinearOp>(&op.verb);
    return std::holds_alternative<record::AddNormOp>(op.verb) ||
           std::holds_alternative<record::MoeDownOp>(op.verb) || (linear && linear->product.add);
}

/// The part of the model that each operation belongs to. In a layer, all operations up to the first residual
/// add are attention.
std::vector<Selection::Part> parts_of(const Program& program) {
    std::vector<Selection::Part> parts;
    int32_t layer = -1;
    bool in_attention = true;
    for (const record::Op& op : program.ops) {
        if (op.layer != layer) in_attention = true;
        layer = op.layer;
        parts.push_back(layer < 0      ? Selection::Part::Head
                        : in_attention ? Selection::Part::Attention
                                       : Selection::Part::FeedForward);
        if (adds_to_stream(op)) in_attention = false;
    }
    return parts;
}

/// Keys and values of a layer are written and read on the same side.
void keep_caches_whole(const Program& program, std::vector<Placement>& ops) {
    for (size_t i = 0; i + 1 < ops.size(); ++i) {
        if (!std::holds_alternative<record::QkvOp>(program.ops[i].verb)) continue;
        Placement &qkv = ops[i], &attend = ops[i + 1];
        if ((qkv.why == LeftOut::No) == (attend.why == LeftOut::No)) continue;
        Placement& follows = qkv.why == LeftOut::No ? qkv : attend;
        const Placement& other = qkv.why == LeftOut::No ? attend : qkv;
        follows = left(LeftOut::Cache, "the KV cache is on the CPU: " + other.reason);
    }
}

bool has_product(const record::Op& op) {
    return std::holds_alternative<record::LinearOp>(op.verb) ||
           std::holds_alternative<record::QkvOp>(op.verb) ||
           std::holds_alternative<record::FfnGateUpOp>(op.verb);
}

/// Removes norms and copies at the end of a range whose result only the CPU reads, and ranges without a
/// product. False if nothing remains.
bool trim(const Program& program, DeviceRange& range, std::vector<Placement>& ops) {
    const auto give_back = [&](int32_t i) {
        ops[static_cast<size_t>(i)] = left(LeftOut::NoProduct, "no matrix product next to it");
    };
    const auto op_at = [&](int32_t i) -> const record::Op& { return program.ops[static_cast<size_t>(i)]; };
    bool any = false;
    for (int32_t i = range.first_op; i <= range.last_op; ++i) any |= has_product(op_at(i));
    while (range.last_op >= range.first_op) {
        const auto& verb = op_at(range.last_op).verb;
        if (any && !std::holds_alternative<record::NormOp>(verb) &&
            !std::holds_alternative<record::CopyOp>(verb))
            break;
        give_back(range.last_op--);
    }
    return range.last_op >= range.first_op;
}

/// Collects the inputs and outputs of a range.
struct Borders {
    const Program& program;
    DeviceRange& range;
    std::set<int32_t> known = {};

    void operator()(FieldName, const Read& role) { read(role.value); }
    void operator()(FieldName, const Write& role) { written(role.value); }
    void operator()(FieldName, const Update& role) {
        read(role.before);
        written(role.after);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}

    void read(ValueId id) {
        if (!id || program[id].first >= range.first_op || !known.insert(id.at).second) return;
        const auto& writer = program.ops[static_cast<size_t>(program[id].first)].verb;
        if (!std::holds_alternative<record::RopeAnglesOp>(writer)) range.inputs.push_back(id);
    }
    void written(ValueId id) {
        if (program[id].last > range.last_op || id == program.output) range.outputs.push_back(id);
    }
};

bool is_before_layers(const record::Op& op) {
    return std::holds_alternative<record::EmbedOp>(op.verb) ||
           std::holds_alternative<record::RopeAnglesOp>(op.verb);
}

}  // namespace

bool Partition::attends() const {
    return std::any_of(segments.begin(), segments.end(), [](const auto& range) { return range.attends; });
}

int64_t Partition::n_on_device() const {
    return std::count_if(ops.begin(), ops.end(), [](const auto& op) { return op.segment >= 0; });
}

void Partition::set_segments(std::vector<DeviceRange> ranges) {
    segments = std::move(ranges);
    for (size_t s = 0; s < segments.size(); ++s)
        for (int32_t i = segments[s].first_op; i <= segments[s].last_op; ++i)
            ops[static_cast<size_t>(i)].segment = static_cast<int32_t>(s);
}

int64_t Partition::boundary_bytes(const Program& program) const {
    int64_t n_floats = 0;
    for (const DeviceRange& range : segments)
        for (const auto* values : {&range.inputs, &range.outputs})
            for (const ValueId id : *values) n_floats += program[program[id].slot].dim;
    return n_floats * static_cast<int64_t>(sizeof(float));
}

Selection Selection::first_layers(int64_t n) {
    Selection out;
    out.is_all_ = false;
    if (n > 0) out.layers_.push_back({0, n - 1, true, true});
    return out;
}

Result<Selection::Layers> Selection::parse_layers(const std::string& item) {
    const auto wrong = [&] {
        return fail(ErrorCode::InvalidArgument,
                    "'%s': expected output or layers such as blk.3, blk.0-15.ffn or blk.*.attn",
                    printable(item).c_str());
    };
    const std::vector<std::string_view> pieces = split(item, '.');
    if (pieces.size() < 2 || pieces.size() > 3 || pieces[0] != "blk") return wrong();
    Layers out{0, INT64_MAX, true, true};
    if (pieces.size() == 3) {
        if (pieces[2] != "attn" && pieces[2] != "ffn") return wrong();
        out.attention = pieces[2] == "attn";
        out.feed_forward = !out.attention;
    }
    if (pieces[1] == "*") return out;
    const std::vector<std::string_view> bounds = split(pieces[1], '-');
    const auto first = parse_int(bounds.front()), last = parse_int(bounds.back());
    if (bounds.size() > 2 || !first || !last || *first < 0 || *last < *first) return wrong();
    out.first = *first;
    out.last = *last;
    return out;
}

Result<Selection> Selection::parse(std::string_view list) {
    Selection out;
    out.is_all_ = false;
    for (const std::string_view item : split(list, ',')) {
        if (item == "output") {
            out.head_ = true;
            continue;
        }
        TSR_TRY(const Layers layers, parse_layers(std::string(item)));
        out.layers_.push_back(layers);
    }
    return out;
}

Result<void> Selection::check(int64_t n_layer) const {
    for (const Layers& layers : layers_) {
        const int64_t named = layers.last == INT64_MAX ? layers.first : layers.last;
        if (named >= n_layer)
            return fail(ErrorCode::InvalidArgument,
                        "layers for the device: expected 0 to %lld, found up to %lld",
                        static_cast<long long>(n_layer - 1), static_cast<long long>(named));
    }
    return {};
}

bool Selection::has(int64_t layer, Part part) const {
    if (is_all_) return true;
    if (part == Part::Head) return head_;
    return std::any_of(layers_.begin(), layers_.end(), [&](const Layers& l) {
        return layer >= l.first && layer <= l.last &&
               (part == Part::Attention ? l.attention : l.feed_forward);
    });
}

std::string op_name(const Program& program, const record::Op& op) {
    std::string name;
    if (const auto* norm = std::get_if<record::NormOp>(&op.verb)) name = program[norm->w].tensor.name;
    if (const auto* norm = std::get_if<record::AddNormOp>(&op.verb)) name = program[norm->w].tensor.name;
    if (const auto* linear = std::get_if<record::LinearOp>(&op.verb))
        name = program[linear->product.w].tensor.name;
    if (!name.empty()) return name.ends_with(".weight") ? name.substr(0, name.size() - 7) : name;
    return op.layer < 0 ? op.name() : "blk." + std::to_string(op.layer) + "." + op.name();
}

DeviceRange range_of(const Program& program, int32_t first, int32_t last) {
    DeviceRange range{.first_op = first, .last_op = last, .inputs = {}, .outputs = {}};
    Borders borders{program, range};
    for (int32_t i = first; i <= last; ++i) {
        const record::Op& op = program.ops[static_cast<size_t>(i)];
        op.fields(borders);
        range.attends |= std::holds_alternative<record::AttendOp>(op.verb) ||
                         std::holds_alternative<record::QkvOp>(op.verb);
    }
    return range;
}

Result<Partition> partition(const Program& program, const Selection& selection, const HtpDevice& device,
                            const Recipe& recipe) {
    TSR_TRY_VOID(selection.check(std::ssize(program.caches)));
    Partition out;
    out.ops = objections(program, &device, &recipe);
    const std::vector<Selection::Part> parts = parts_of(program);
    size_t head = program.ops.size();
    while (head > 0 && program.ops[head - 1].layer < 0) --head;
    for (size_t i = 0; i < out.ops.size(); ++i)
        if (!is_before_layers(program.ops[i]) && !selection.has(program.ops[i].layer, parts[i]))
            out.ops[i] = left(LeftOut::NotSelected, kNotSelected);
    keep_caches_whole(program, out.ops);
    const auto n_ops = static_cast<int32_t>(out.ops.size());
    for (int32_t first = 0; first < n_ops; ++first) {
        const auto is_ours = [&](int32_t i) { return out.ops[static_cast<size_t>(i)].why == LeftOut::No; };
        if (!is_ours(first)) continue;
        DeviceRange range{.first_op = first, .last_op = first, .inputs = {}, .outputs = {}};
        while (range.last_op + 1 < n_ops && is_ours(range.last_op + 1) &&
               range.last_op + 1 != static_cast<int32_t>(head))
            ++range.last_op;
        first = range.last_op;
        if (!trim(program, range, out.ops)) continue;
        for (int32_t i = range.first_op; i <= range.last_op; ++i)
            out.ops[static_cast<size_t>(i)].segment = static_cast<int32_t>(out.segments.size());
        out.segments.push_back(range_of(program, range.first_op, range.last_op));
    }
    return out;
}

Placement placement_of(const record::Op& op, int32_t segment, const std::string& reason) {
    if (segment >= 0 || reason.empty()) return {LeftOut::No, "", segment};
    const LeftOut why = is_before_layers(op)     ? LeftOut::Lookup
                        : reason == kNotSelected ? LeftOut::NotSelected
                                                 : LeftOut::Unsaid;
    return left(why, reason);
}

std::string left_out_text(const Program& program, const Partition& partition) {
    std::string out;
    for (size_t i = 0; i < partition.ops.size(); ++i) {
        const Placement& op = partition.ops[i];
        if (op.why == LeftOut::No || op.why == LeftOut::NotSelected || is_before_layers(program.ops[i]))
            continue;
        out += op_name(program, program.ops[i]) + ": " + op.reason + "\n";
    }
    return out;
}

bool is_head(const Program& program, int32_t first_op) {
    return program.ops[static_cast<size_t>(first_op)].layer < 0;
}

Result<DeviceRange> whole_range(const Program& program) {
    const std::vector<Placement> ops = objections(program, nullptr, nullptr);
    int32_t first = 0;
    for (size_t i = 0; i < ops.size(); ++i) {
        const record::Op& op = program.ops[i];
        if (is_before_layers(op))
            first = static_cast<int32_t>(i) + 1;
        else if (ops[i].why != LeftOut::No)
            return fail(ErrorCode::Unsupported, "operation %zu, %s of layer %d, stays on the CPU: %s", i,
                        op.name(), op.layer, ops[i].reason.c_str());
    }
    return range_of(program, first, static_cast<int32_t>(ops.size()) - 1);
}

}  // namespace tessera::npu
