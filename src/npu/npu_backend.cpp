// A segment runs at its first operation: its inputs are ready then, and a pass without logits may end in the
// middle of it. Only the head runs at its product, because a pass for hidden states ends before it, and the
// CPU computes its norm as well. Results are copied to the buffers of the operations that would have written
// them, with the int8 image that the next operation reads. Rows without requested logits are computed by the
// segment in which they are dropped, and by no later one.
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

/// Notes the buffer that each value of an operation is written to; later readers of the value use it.
struct NpuBackend::BindWritten {
    NpuBackend& backend;

    void bind(ActBuffer* act, ValueId value) const {
        if (value) backend.acts_[static_cast<size_t>(backend.program_[value].slot.at)] = act;
    }
    void operator()(FieldName, ActBuffer* act, const record::Write& role) const { bind(act, role.value); }
    void operator()(FieldName, ActBuffer* act, const record::Update& role) const { bind(act, role.after); }
    template <class Operand, class Role>
    void operator()(FieldName, const Operand&, const Role&) const {}
};

/// A pass begins.
void NpuBackend::before(const EmbedOp<Direct>& op) {
    at_ = 0;
    segment_ = 0;
    runs_ = false;
    kept_ = {};
    n_rows_ = std::ssize(op.tokens);
}

void NpuBackend::before(const RopeAnglesOp<Direct>& op) {
    n_past_ = op.positions.front().pos0;
    n_sequences_ = op.positions.size();
}

/// The program ends with the norm and the product of the head.
template <class Other>
void NpuBackend::before(const Other& op) {
    if constexpr (requires { op.n_tok; })
        if (at_ == static_cast<int32_t>(program_.ops.size()) - 2) n_rows_ = op.n_tok;
}

/// Not an operation of the program, which computes all rows. The results of the current segment follow later.
void NpuBackend::gather(const GatherRowsOp<Direct>& op) {
    cpu_.gather_rows(op);
    if (runs_)
        kept_ = op.rows;
    else
        n_rows_ = std::ssize(op.rows);
}

/// Executes an operation of the program on the device or on the CPU.
template <template <class> class Name>
void NpuBackend::step(const Name<Direct>& op) {
    before(op);
    TSR_CHECK(at_ < static_cast<int32_t>(program_.ops.size()));
    const auto* recorded = std::get_if<Name<record::Recorded>>(&program_.ops[static_cast<size_t>(at_)].verb);
    TSR_CHECK(recorded);
    Name<Direct>::fields(BindWritten{*this}, op, *recorded);
    if (!runs_ && segment_ < ranges_.size() && starts_[segment_] == at_) {
        runs_ = true;
        run_segment(ranges_[segment_]);
    }
    if (!runs_) {
        cpu_.run(op);
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

void NpuBackend::run(const Op& op) {
    // Rows that get no logits are normed by the CPU, behind the program.
    const bool is_new_pass = std::holds_alternative<EmbedOp<Direct>>(op);
    if (at_ == static_cast<int32_t>(program_.ops.size()) && !is_new_pass) return cpu_.run(op);
    if (const auto* rows = std::get_if<GatherRowsOp<Direct>>(&op)) return gather(*rows);
    std::visit([this](const auto& one) { step(one); }, op);
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
        const ActBuffer rows{.dim = to.dim, .f32 = from};
        cpu_.copy({.x = &rows, .n_tok = kept_.empty() ? n_rows_ : std::ssize(kept_), .y = &to});
    }
}

}  // namespace tessera::npu
