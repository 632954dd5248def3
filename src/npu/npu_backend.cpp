// A segment runs at its first verb: its inputs are ready then, and a pass without logits may end in the
// middle of it. Only the head runs at its product, because a pass for hidden states ends before it, and the
// CPU computes its norm as well. Results are copied to the buffers of the verbs that would have written them,
// with the int8 image that the next verb reads. Rows without requested logits are computed by the segment in
// which they are dropped, and by no later one.
#include "src/npu/npu_backend.h"

#include <algorithm>

namespace tessera::npu {

using record::Program;
using record::ValueId;

size_t NpuBackend::result_bytes(const Program& program, std::span<const DeviceRange> ranges, int64_t max_tok,
                                int64_t max_out) {
    size_t most_floats = 0;
    for (const DeviceRange& range : ranges) {
        const bool is_head = npu::is_head(program, range.first_op);
        size_t n_floats = 0;
        for (const ValueId id : range.outputs)
            n_floats += static_cast<size_t>((is_head ? max_out : max_tok) * program[program[id].slot].dim);
        most_floats = std::max(most_floats, n_floats);
    }
    return most_floats * sizeof(float);
}

Result<std::unique_ptr<NpuBackend>> NpuBackend::create(CpuBackend& cpu, const Program& program,
                                                       std::span<const DeviceRange> ranges,
                                                       SegmentRunner& runner, int64_t max_tok,
                                                       int64_t max_out) {
    std::unique_ptr<NpuBackend> out(new NpuBackend(cpu, program, ranges, runner));
    out->acts_.resize(program.slots.size());
    size_t most_ports = 0;
    for (const DeviceRange& range : ranges) {
        out->starts_.push_back(npu::is_head(program, range.first_op) ? range.last_op : range.first_op);
        most_ports = std::max({most_ports, range.inputs.size(), range.outputs.size()});
    }
    TSR_TRY(out->memory_,
            Buffer::create(result_bytes(program, ranges, max_tok, max_out), "the results of the device"));
    out->results_.reserve(most_ports);
    out->chunk_in_.reserve(most_ports);
    out->chunk_out_.reserve(most_ports);
    return out;
}

/// The operation that corresponds to the current verb.
template <class Op>
const Op& NpuBackend::next() const {
    TSR_CHECK(at_ < static_cast<int32_t>(program_.ops.size()));
    const Op* op = std::get_if<Op>(&program_.ops[static_cast<size_t>(at_)].verb);
    TSR_CHECK(op);
    return *op;
}

/// Notes the buffer that a value is written to; later readers of the value use it.
void NpuBackend::bind(ValueId value, ActBuffer& act) {
    if (value) acts_[static_cast<size_t>(program_[value].slot.at)] = &act;
}

/// Executes a verb whose activations are bound: on the device, or with verb() on the CPU.
template <class Verb>
void NpuBackend::step(const Verb& verb) {
    if (!runs_ && segment_ < ranges_.size() && starts_[segment_] == at_) {
        runs_ = true;
        run_segment(ranges_[segment_]);
    }
    if (!runs_) {
        verb();
    } else {
        const DeviceRange& range = ranges_[segment_];
        deliver(range);
        if (at_ == range.last_op) {
            runs_ = false;
            ++segment_;
            if (!kept_.empty()) n_rows_ = std::ssize(kept_);
            kept_ = {};
        }
    }
    ++at_;
}

void NpuBackend::run_segment(const DeviceRange& range) {
    TSR_CHECK(!range.attends || n_sequences_ == 1);
    const auto dim = [this](ValueId id) { return program_[program_[id].slot].dim; };
    results_.clear();
    auto* at = memory_.as<float>();
    for (const ValueId id : range.outputs) {
        results_.push_back(at);
        at += n_rows_ * dim(id);
    }
    const int64_t max_rows = runner_.max_rows(segment_);
    for (int64_t row = 0; row < n_rows_ && !cpu_.pool().aborted(); row += max_rows) {
        chunk_in_.clear();
        chunk_out_.clear();
        for (const ValueId id : range.inputs)
            chunk_in_.push_back(acts_[static_cast<size_t>(program_[id].slot.at)]->row(row));
        for (size_t i = 0; i < results_.size(); ++i)
            chunk_out_.push_back(results_[i] + row * dim(range.outputs[i]));
        const Pass pass{.n_valid = std::min(max_rows, n_rows_ - row),
                        .n_past = range.attends ? n_past_ + row : 0};
        runner_.run(segment_, pass, chunk_in_, chunk_out_);
    }
}

/// The values that the current operation would have written and later ones read.
void NpuBackend::deliver(const DeviceRange& range) {
    for (size_t i = 0; i < range.outputs.size(); ++i) {
        const record::Value& value = program_[range.outputs[i]];
        if (value.first != at_) continue;
        ActBuffer& to = *acts_[static_cast<size_t>(value.slot.at)];
        float* from = results_[i];
        for (size_t row = 0; row < kept_.size(); ++row)
            std::copy_n(from + kept_[row] * to.dim, to.dim, from + static_cast<int64_t>(row) * to.dim);
        cpu_.copy({.dim = to.dim, .f32 = from}, kept_.empty() ? n_rows_ : std::ssize(kept_), to);
    }
}

void NpuBackend::embed(const Weight& table, std::span<const int32_t> tokens, float scale, ActBuffer& x) {
    at_ = 0;
    segment_ = 0;
    runs_ = false;
    kept_ = {};
    n_rows_ = std::ssize(tokens);
    bind(next<record::EmbedOp>().x.value, x);
    step([&] { cpu_.embed(table, tokens, scale, x); });
}

void NpuBackend::rope_angles(const RopeSpec& rope, std::span<const Segment> segments, ActBuffer& angles) {
    n_past_ = segments.front().pos0;
    n_sequences_ = segments.size();
    bind(next<record::RopeAnglesOp>().angles.value, angles);
    step([&] { cpu_.rope_angles(rope, segments, angles); });
}

void NpuBackend::norm(const ActBuffer& x, const Vector& w, float eps, int64_t n_tok, ActBuffer& y) {
    // The program ends with the head's norm and product. Rows that get no logits are normed by the CPU:
    // behind these, or in place of them where the pass computes no logits.
    const auto n_ops = static_cast<int32_t>(program_.ops.size());
    if (at_ == n_ops) return cpu_.norm(x, w, eps, n_tok, y);
    if (at_ == n_ops - 2) n_rows_ = n_tok;
    bind(next<record::NormOp>().y.value, y);
    step([&] { cpu_.norm(x, w, eps, n_tok, y); });
}

void NpuBackend::add_norm(ActBuffer& delta, const Vector& w, float eps, int64_t n_tok, ActBuffer& x) {
    bind(next<record::AddNormOp>().x.after, x);
    step([&] { cpu_.add_norm(delta, w, eps, n_tok, x); });
}

void NpuBackend::copy(const ActBuffer& x, int64_t n_tok, ActBuffer& y) {
    bind(next<record::CopyOp>().y.value, y);
    step([&] { cpu_.copy(x, n_tok, y); });
}

void NpuBackend::linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) {
    for (const LinearOut& out : outs) {
        const auto& op = next<record::LinearOp>();
        const auto* write = std::get_if<record::Write>(&op.y);
        bind(write ? write->value : std::get<record::Update>(op.y).after, *out.y);
        step([&] { cpu_.linear(x, n_tok, {&out, 1}); });
    }
}

void NpuBackend::qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args,
                     std::span<const Segment> segments, ActBuffer& q) {
    bind(next<record::QkvOp>().q.value, q);
    step([&] { cpu_.qkv(x, n_tok, args, segments, q); });
}

void NpuBackend::gather_rows(std::span<const int32_t> rows, ActBuffer& a) {
    // Not an operation of the program, which computes all rows. The results of the current segment follow
    // later.
    cpu_.gather_rows(rows, a);
    if (runs_)
        kept_ = rows;
    else
        n_rows_ = std::ssize(rows);
}

void NpuBackend::attend(const ActBuffer& q, int64_t n_tok, const AttendArgs& args,
                        std::span<const Segment> segments, ActBuffer& y) {
    bind(next<record::AttendOp>().y.value, y);
    step([&] { cpu_.attend(q, n_tok, args, segments, y); });
}

void NpuBackend::ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) {
    bind(next<record::FfnGateUpOp>().y.value, y);
    y.needs_f32 = true;  // segments read floats
    step([&] { cpu_.ffn_gate_up(x, n_tok, args, y); });
}

void NpuBackend::moe_route(const ActBuffer& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) {
    next<record::MoeRouteOp>();
    step([&] { cpu_.moe_route(x, n_tok, args, routes); });
}

void NpuBackend::moe_gate_up(const ActBuffer& x, int64_t n_tok, const MoeRoutes& routes,
                             const FfnGateUpArgs& args, ActBuffer& gathered, ActBuffer& y) {
    bind(next<record::MoeGateUpOp>().y.value, y);
    y.needs_f32 = true;
    step([&] { cpu_.moe_gate_up(x, n_tok, routes, args, gathered, y); });
}

void NpuBackend::moe_down(const ActBuffer& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                          const Vector& bias, float scale, ActBuffer& rows, ActBuffer& out) {
    bind(next<record::MoeDownOp>().out.after, out);
    step([&] { cpu_.moe_down(y, n_tok, routes, down, bias, scale, rows, out); });
}

}  // namespace tessera::npu
