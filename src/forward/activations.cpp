// Lays out the activations by the recorded pass. A buffer holds a value from the operation that writes it to
// the last one that reads it, and lies in one place in all layers.
#include "src/forward/activations.h"

#include <algorithm>

#include "common/arena_plan.h"
#include "ggml-like/act_layout.h"
#include "src/forward/record.h"

namespace tessera {

namespace {

struct NamedBuffer {
    ActBuffer Activations::*at;
    const char* name;         // of its values in programs
    bool of_outputs = false;  // has a row for each row with logits, not for each token
};

constexpr NamedBuffer kBuffers[] = {
    {&Activations::residual, "x"},
    {&Activations::normed, "h"},
    {&Activations::q, "q"},
    {&Activations::attn, "attn"},
    {&Activations::ff, "ff"},
    {&Activations::k_scratch, "k_scratch"},
    {&Activations::sublayer_out, "sublayer_out"},
    {&Activations::angles, "angles"},
    {&Activations::local_angles, "local_angles"},
    {&Activations::shared_ff, "shared_ff"},
    {&Activations::gathered, "gathered"},
    {&Activations::expert_ff, "expert_ff"},
    {&Activations::expert_out, "expert_out"},
    {&Activations::final_normed, "out", true},
    {&Activations::logits, "logits", true},
};
constexpr size_t kRoutes = std::size(kBuffers);  // index of the routes in a plan

struct BufferPlan {
    Activations buffers;             // without memory
    int64_t rows[kRoutes + 1] = {};  // of each buffer, and tokens of the routes
    ArenaPlan arena;
};

size_t index_of(const record::Slot& slot) {
    if (slot.is_routes()) return kRoutes;
    const auto found = std::find_if(std::begin(kBuffers), std::end(kBuffers),
                                    [&slot](const NamedBuffer& buffer) { return slot.name == buffer.name; });
    TSR_CHECK(found != std::end(kBuffers));
    return static_cast<size_t>(found - std::begin(kBuffers));
}

/// Sets the pointers of a buffer, or of the routes, with memory of the interface of Arena.
template <class Memory>
void allocate(BufferPlan& planned, size_t i, Memory& memory) {
    if (i == kRoutes)
        allocate_routes(planned.buffers.routes, planned.rows[i], memory);
    else
        allocate_act(planned.buffers.*kBuffers[i].at, planned.rows[i], memory);
}

BufferPlan plan_buffers(const Model& model, int64_t max_tok, int64_t max_out, bool all_floats) {
    const record::Program program = record_all_rows(model, max_tok, max_tok, all_floats);
    BufferPlan out;
    out.buffers = Activations::describe(model);
    SpanLifetimes lifetimes[kRoutes + 1];
    for (const record::Slot& slot : program.slots) {
        const size_t i = index_of(slot);
        const bool of_outputs = i < kRoutes && kBuffers[i].of_outputs;
        out.rows[i] = std::max(out.rows[i], of_outputs ? max_out : slot.rows);
        lifetimes[i].spans.push_back({0, slot.first, slot.last});
        if (i == kRoutes) continue;
        ActBuffer& buffer = out.buffers.*kBuffers[i].at;
        buffer.needs_f32 |= slot.needs_f32;
        buffer.needs_int8 |= slot.needs_int8;
        buffer.dim = std::max(buffer.dim, slot.dim);  // layers may differ
    }
    // Logits are valid until the next pass that computes some.
    const auto last_op = static_cast<int32_t>(program.ops.size()) - 1;
    lifetimes[index_of(program[program[program.output].slot])].spans = {{0, 0, last_op}};
    for (size_t i = 0; i <= kRoutes; ++i) {
        ArenaSize size;
        allocate(out, i, size);
        lifetimes[i].n_bytes = lifetimes[i].spans.empty() ? 0 : size.bytes();
    }
    out.arena = plan_arena(std::span<const SpanLifetimes>(lifetimes));
    return out;
}

}  // namespace

Activations Activations::describe(const Model& model) {
    Activations a;
    for (const NamedBuffer& buffer : kBuffers) a.*buffer.at = {.name = buffer.name, .needs_f32 = false};
    a.routes.n_expert = model.hparams().moe.n_expert;
    a.routes.n_used = model.hparams().moe.n_used;
    return a;
}

size_t Activations::bytes(const Model& model, int64_t max_tok, int64_t max_out, bool all_floats) {
    return plan_buffers(model, max_tok, max_out, all_floats).arena.n_bytes;
}

Result<Activations> Activations::create(const Model& model, int64_t max_tok, int64_t max_out,
                                        bool all_floats) {
    BufferPlan planned = plan_buffers(model, max_tok, max_out, all_floats);
    TSR_TRY(Buffer memory, Buffer::create(planned.arena.n_bytes, "the activations"));
    for (size_t i = 0; i <= kRoutes; ++i) {
        if (planned.rows[i] == 0) continue;
        ArenaPiece piece(memory.data() + planned.arena.offsets[i]);
        allocate(planned, i, piece);
    }
    Activations a = std::move(planned.buffers);
    a.memory = std::move(memory);
    a.max_tok = max_tok;
    a.max_out = max_out;
    a.output_segments.reserve(static_cast<size_t>(max_out));
    return a;
}

}  // namespace tessera
