// Calls the backend once per operation, on the memory of the slots. Shapes are fixed, so row-wise operations
// compute padding rows as well; segments never include them.
#include "ggml-like/record/replay.h"

#include <algorithm>

#include "ggml-like/act_layout.h"

namespace tessera::record {

namespace {

/// Hands out the bytes of one slot with the interface of Arena.
struct SlotMemory {
    std::byte* at;

    template <class T>
    std::span<T> take(size_t n) {
        T* piece = reinterpret_cast<T*>(at);
        at += Arena::padded(n * sizeof(T));
        return {piece, n};
    }
};

/// The value that an operation writes, whether new or in place.
ValueId result(const Write& role) { return role.value; }
ValueId result(const Update& role) { return role.after; }

}  // namespace

Result<Replay> Replay::create(const Program& program) {
    Replay replay(program);
    TSR_TRY(replay.arena_, Buffer::create(program.arena_bytes, "a program's values"));
    for (const Slot& slot : program.slots) {
        SlotMemory memory{replay.arena_.data() + slot.offset};
        ActBuffer& act = replay.acts_.emplace_back();
        MoeRoutes& routes = replay.routes_.emplace_back();
        if (slot.is_routes()) {
            routes = slot.routes();
            allocate_routes(routes, slot.rows, memory);
        } else {
            act = slot.act();
            allocate_act(act, slot.rows, memory);
        }
    }
    replay.tokens_.resize(static_cast<size_t>(program.n_tok));
    return replay;
}

/// One run: a visitor that executes each operation on the backend.
struct Replay::Runner {
    Replay& replay;
    Backend& be;
    int64_t n_valid, n_past;
    std::span<std::byte* const* const> pages;

    const Program& program() const { return *replay.program_; }
    ActBuffer& act(ValueId id) const { return replay.act(id); }
    MoeRoutes& routes(ValueId id) const { return replay.routes_[static_cast<size_t>(program()[id].slot.at)]; }
    int64_t rows(ValueId id) const { return program()[id].rows; }
    Weight weight(WeightId id) const { return id ? program()[id].view : Weight{}; }
    Vector vector(VectorId id) const { return id ? program()[id].view : Vector{}; }
    Segment segment(CacheId cache, Rows rows) const {
        const auto group = static_cast<size_t>(program()[cache].layer_group);
        if (rows == Rows::All) return {pages[group], 0, n_valid, n_past};
        return {pages[group], n_valid - 1, 1, n_past + n_valid - 1};
    }

    void operator()(const EmbedOp& op) const {
        be.embed(weight(op.table), replay.tokens_, op.scale, act(op.x.value));
    }
    void operator()(const RopeAnglesOp& op) const {
        const Rope& rope = program()[op.rope];
        const Segment all{pages[0], 0, program().n_tok, n_past};
        be.rope_angles(
            {rope.kind, 2 * static_cast<int64_t>(rope.freq.size()), rope.freq.data(), rope.magnitude},
            {&all, 1}, act(op.angles.value));
    }
    void operator()(const NormOp& op) const {
        be.norm(act(op.x.value), vector(op.w), op.eps, rows(op.y.value), act(op.y.value));
    }
    void operator()(const AddNormOp& op) const {
        be.add_norm(act(op.delta.value), vector(op.w), op.eps, rows(op.x.after), act(op.x.after));
    }
    void operator()(const CopyOp& op) const { be.copy(act(op.x.value), rows(op.y.value), act(op.y.value)); }
    void operator()(const LinearOp& op) const {
        const ValueId y = std::visit([](const auto& role) { return result(role); }, op.y);
        const LinearOut out{.w = weight(op.w),
                            .bias = vector(op.bias),
                            .y = &act(y),
                            .scale = op.scale,
                            .softcap = op.softcap,
                            .add = std::holds_alternative<Update>(op.y)};
        be.linear(act(op.x.value), rows(y), {&out, 1});
    }
    void operator()(const QkvOp& op) const {
        const Segment segment = this->segment(op.cache, Rows::All);
        be.qkv(act(op.x.value), rows(op.q.value),
               {.wq = weight(op.wq),
                .wk = weight(op.wk),
                .wv = weight(op.wv),
                .bq = vector(op.bq),
                .bk = vector(op.bk),
                .bv = vector(op.bv),
                .q_norm = vector(op.q_norm),
                .k_norm = vector(op.k_norm),
                .norm_eps = op.norm_eps,
                .n_head = op.n_head,
                .rope = op.rope,
                .n_rot = op.n_rot,
                .angles = op.angles.value ? &act(op.angles.value) : nullptr,
                .attn_temp = op.attn_temp,
                .kv = program()[op.cache].where,
                .k_scratch = op.k_scratch.value ? &act(op.k_scratch.value) : nullptr},
               {&segment, 1}, act(op.q.value));
    }
    void operator()(const GatherRowsOp& op) const {
        const auto last = static_cast<int32_t>(n_valid - 1);
        be.gather_rows({&last, 1}, act(op.a.after));
    }
    void operator()(const AttendOp& op) const {
        const Segment segment = this->segment(op.cache, op.rows);
        be.attend(act(op.q.value), rows(op.y.value),
                  {.kv = program()[op.cache].where,
                   .n_head = op.n_head,
                   .scale = op.scale,
                   .softcap = op.softcap,
                   .window = op.window,
                   .sinks = vector(op.sinks)},
                  {&segment, 1}, act(op.y.value));
    }
    void operator()(const FfnGateUpOp& op) const {
        be.ffn_gate_up(act(op.x.value), rows(op.y.value),
                       {.gate = weight(op.gate),
                        .up = weight(op.up),
                        .gate_bias = vector(op.gate_bias),
                        .up_bias = vector(op.up_bias),
                        .activation = op.activation,
                        .shared_expert_gate = weight(op.shared_expert_gate)},
                       act(op.y.value));
    }
    void operator()(const MoeRouteOp& op) const {
        be.moe_route(act(op.x.value), rows(op.routes.value),
                     {.w = weight(op.w), .bias = vector(op.bias), .kind = op.kind}, routes(op.routes.value));
    }
    void operator()(const MoeGateUpOp& op) const {
        be.moe_gate_up(act(op.x.value), rows(op.routes.value), routes(op.routes.value),
                       {.gate = weight(op.gate),
                        .up = weight(op.up),
                        .gate_bias = vector(op.gate_bias),
                        .up_bias = vector(op.up_bias),
                        .activation = op.activation},
                       act(op.gathered.value), act(op.y.value));
    }
    void operator()(const MoeDownOp& op) const {
        be.moe_down(act(op.y.value), rows(op.out.after), routes(op.routes.value), weight(op.down),
                    vector(op.bias), op.scale, act(op.rows.value), act(op.out.after));
    }
};

void Replay::run(Backend& backend, std::span<const int32_t> tokens, int64_t n_past,
                 std::span<std::byte* const* const> pages) {
    TSR_CHECK(!tokens.empty() && tokens.size() <= tokens_.size());
    TSR_CHECK(static_cast<int32_t>(pages.size()) == program_->n_layer_groups);
    std::fill(std::copy(tokens.begin(), tokens.end(), tokens_.begin()), tokens_.end(), 0);
    const auto last = static_cast<int32_t>(program_->ops.size()) - 1;
    run_range(backend, 0, last, static_cast<int64_t>(tokens.size()), n_past, pages);
}

void Replay::run_range(Backend& backend, int32_t first, int32_t last, int64_t n_valid, int64_t n_past,
                       std::span<std::byte* const* const> pages) {
    const Runner runner{*this, backend, n_valid, n_past, pages};
    for (int32_t i = first; i <= last; ++i) std::visit(runner, program_->ops[static_cast<size_t>(i)].verb);
}

}  // namespace tessera::record
