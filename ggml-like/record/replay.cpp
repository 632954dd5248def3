// Calls the backend once per operation, on the memory of the slots. Shapes are fixed, so row-wise operations
// compute padding rows as well; segments never include them.
#include "ggml-like/record/replay.h"

#include <algorithm>

#include "ggml-like/act_layout.h"

namespace tessera::record {

Result<Replay> Replay::create(const Program& program) {
    Replay replay(program);
    TSR_TRY(replay.arena_, Buffer::create(program.arena_bytes, "a program's values"));
    for (const Slot& slot : program.slots) {
        ArenaPiece memory(replay.arena_.data() + slot.offset);
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

/// One run: a visitor that puts the operands of an operation in place of their numbers.
struct Replay::Runner {
    Replay& replay;
    Backend& be;
    int64_t n_valid, n_past;
    std::span<std::byte* const* const> pages;
    mutable Segment segment = {};  // of the current operation
    mutable int32_t last_row = 0;

    const Program& program() const { return *replay.program_; }
    ActBuffer* act(ValueId id) const { return id ? &replay.act(id) : nullptr; }
    MoeRoutes* routes(ValueId id) const {
        return &replay.routes_[static_cast<size_t>(program()[id].slot.at)];
    }

    void operator()(FieldName, const Read& from, const ActBuffer*& to) const { to = act(from.value); }
    void operator()(FieldName, const Write& from, ActBuffer*& to) const { to = act(from.value); }
    void operator()(FieldName, const Update& from, ActBuffer*& to) const { to = act(from.after); }
    void operator()(FieldName, const Scratch& from, ActBuffer*& to) const { to = act(from.value); }
    void operator()(FieldName, const Read& from, const MoeRoutes*& to) const { to = routes(from.value); }
    void operator()(FieldName, const Write& from, MoeRoutes*& to) const { to = routes(from.value); }
    void operator()(FieldName, WeightId from, Weight& to) const {
        if (from) to = program()[from].view;
    }
    void operator()(FieldName, VectorId from, Vector& to) const {
        if (from) to = program()[from].view;
    }
    void operator()(FieldName, RopeId from, RopeSpec& to) const {
        const Rope& rope = program()[from];
        to = {rope.kind, 2 * static_cast<int64_t>(rope.freq.size()), rope.freq.data(), rope.magnitude};
    }
    /// Listed before the segments, which have the pages of the cache's layer group.
    void operator()(FieldName, CacheId from, KvLayer& to) const {
        to = program()[from].where;
        segment.pages = pages[static_cast<size_t>(program()[from].layer_group)];
    }
    void operator()(FieldName, Rows from, std::span<const Segment>& to) const {
        const int64_t row0 = from == Rows::All ? 0 : n_valid - 1;
        segment = {segment.pages, row0, n_valid - row0, n_past + row0};
        to = {&segment, 1};
    }
    void operator()(FieldName, Positions, std::span<const Segment>& to) const {
        segment = {pages[0], 0, program().n_tok, n_past};  // padding has positions too
        to = {&segment, 1};
    }
    void operator()(FieldName, Rows, std::span<const int32_t>& to) const {
        last_row = static_cast<int32_t>(n_valid - 1);
        to = {&last_row, 1};
    }
    void operator()(FieldName, Tokens, std::span<const int32_t>& to) const { to = replay.tokens_; }
    template <class Constant>
    void operator()(FieldName, const Constant& from, Constant& to) const {
        to = from;
    }

    template <template <class> class Name>
    void execute(const Name<Recorded>& op) const {
        Name<Direct> out;
        Name<Direct>::fields(*this, op, out);
        be.run(out);
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
    for (int32_t i = first; i <= last; ++i)
        std::visit([&runner](const auto& op) { runner.execute(op); },
                   program_->ops[static_cast<size_t>(i)].verb);
}

}  // namespace tessera::record
