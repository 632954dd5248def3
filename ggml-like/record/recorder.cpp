// Recording, one function per operation. Assumes one sequence and the segments from segments(), so that "all
// tokens" and "the last token" are the only selections of rows.
#include "ggml-like/record/recorder.h"

#include "common/expected.h"

namespace tessera::record {

RecordBackend::RecordBackend(int64_t n_tok, int32_t n_layer_groups, const TensorNames& names)
    : names_(names), tokens_(static_cast<size_t>(n_tok)), no_pages_(static_cast<size_t>(n_layer_groups)) {
    program_.n_tok = n_tok;
    program_.n_layer_groups = n_layer_groups;
    for (std::byte*& group : no_pages_) segments_.push_back({&group, 0, n_tok, 0});
}

Program RecordBackend::finish(const ActBuffer* output) {
    if (output) program_.output = read(output).value;
    complete(program_);
    return std::move(program_);
}

Read RecordBackend::read(const void* buffer) const {
    const auto held = held_.find(buffer);
    TSR_CHECK(held != held_.end());
    return {held->second};
}

ValueId RecordBackend::write(const void* buffer, Slot slot) {
    const Id<Slot> at{static_cast<int32_t>(program_.slots.size())};
    const ValueId value{static_cast<int32_t>(program_.values.size())};
    program_.values.push_back({.slot = at, .rows = slot.rows});
    program_.slots.push_back(std::move(slot));
    return held_[buffer] = value;
}

ValueId RecordBackend::write(const ActBuffer& act, int64_t rows) {
    return write(&act, {.name = act.name,
                        .rows = rows,
                        .dim = act.dim,
                        .needs_f32 = act.needs_f32,
                        .needs_int8 = act.needs_int8,
                        .is_gathered = act.is_gathered});
}

Update RecordBackend::update(const ActBuffer& act, int64_t rows) {
    const ValueId before = read(&act).value;
    const ValueId after{static_cast<int32_t>(program_.values.size())};
    program_.values.push_back({.slot = program_[before].slot, .rows = rows});
    held_[&act] = after;
    return {before, after};
}

WeightId RecordBackend::weight(const Weight& w) {
    if (!w) return {};
    const auto [known, is_new] = weights_.try_emplace(w.data);
    if (is_new) {
        known->second = {static_cast<int32_t>(program_.weights.size())};
        program_.weights.push_back({names_.at(w.data), w});
    }
    return known->second;
}

VectorId RecordBackend::vector(const Vector& v) {
    if (!v) return {};
    const auto [known, is_new] = vectors_.try_emplace(v.data);
    if (is_new) {
        known->second = {static_cast<int32_t>(program_.vectors.size())};
        program_.vectors.push_back({names_.at(v.data), v});
    }
    return known->second;
}

Rows RecordBackend::rows_of(std::span<const Segment> segments) const {
    TSR_CHECK(segments.size() == 1);
    const Segment& segment = segments.front();
    TSR_CHECK(segment.row0 + segment.n_tok == program_.n_tok && segment.pos0 == segment.row0);
    TSR_CHECK(segment.row0 == 0 || segment.n_tok == 1);
    return segment.row0 == 0 ? Rows::All : Rows::Last;
}

void RecordBackend::embed(const Weight& table, std::span<const int32_t> tokens, float scale, ActBuffer& x) {
    TSR_CHECK(static_cast<int64_t>(tokens.size()) == program_.n_tok);
    append(EmbedOp{.table = weight(table), .scale = scale, .x = {write(x, program_.n_tok)}});
}

void RecordBackend::rope_angles(const RopeSpec& rope, std::span<const Segment>, ActBuffer& angles) {
    const RopeId id{static_cast<int32_t>(program_.ropes.size())};
    program_.ropes.push_back({rope.kind, {rope.freq, rope.freq + rope.n_rot / 2}, rope.magnitude});
    append(RopeAnglesOp{.rope = id, .angles = {write(angles, program_.n_tok)}});
}

void RecordBackend::norm(const ActBuffer& x, const Vector& w, float eps, int64_t n_tok, ActBuffer& y) {
    append(NormOp{.x = read(&x), .w = vector(w), .eps = eps, .y = {write(y, n_tok)}});
}

void RecordBackend::add_norm(ActBuffer& delta, const Vector& w, float eps, int64_t n_tok, ActBuffer& x) {
    append(AddNormOp{.delta = read(&delta), .w = vector(w), .eps = eps, .x = update(x, n_tok)});
}

void RecordBackend::copy(const ActBuffer& x, int64_t n_tok, ActBuffer& y) {
    append(CopyOp{.x = read(&x), .y = {write(y, n_tok)}});
}

void RecordBackend::linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) {
    for (const LinearOut& out : outs) {
        LinearOp op{.x = read(&x),
                    .w = weight(out.w),
                    .bias = vector(out.bias),
                    .scale = out.scale,
                    .softcap = out.softcap,
                    .y = {}};
        if (out.add)
            op.y = update(*out.y, n_tok);
        else
            op.y = Write{write(*out.y, n_tok)};
        append(std::move(op));
    }
}

void RecordBackend::qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args,
                        std::span<const Segment> segments, ActBuffer& q) {
    TSR_CHECK(n_tok == program_.n_tok && rows_of(segments) == Rows::All);
    const auto group = segments.front().pages - no_pages_.data();
    cache_ = {static_cast<int32_t>(program_.caches.size())};
    program_.caches.push_back({args.kv, static_cast<int32_t>(group)});
    QkvOp op{.x = read(&x),
             .angles = {},
             .wq = weight(args.wq),
             .wk = weight(args.wk),
             .wv = weight(args.wv),
             .bq = vector(args.bq),
             .bk = vector(args.bk),
             .bv = vector(args.bv),
             .q_norm = vector(args.q_norm),
             .k_norm = vector(args.k_norm),
             .norm_eps = args.norm_eps,
             .n_head = args.n_head,
             .n_rot = args.n_rot,
             .rope = args.rope,
             .attn_temp = args.attn_temp.strength > 0 ? args.attn_temp : AttnTempScaling{},
             .cache = cache_,
             .k_scratch = {},
             .q = {}};
    if (args.rope != RopeKind::None) op.angles = read(args.angles);
    if (args.k_scratch && args.k_scratch->dim > 0) op.k_scratch = {write(*args.k_scratch, n_tok)};
    op.q = {write(q, n_tok)};
    append(std::move(op));
}

void RecordBackend::gather_rows(std::span<const int32_t> rows, ActBuffer& a) {
    TSR_CHECK(rows.size() == 1 && rows[0] == program_.n_tok - 1);
    append(GatherRowsOp{.a = update(a, 1)});
}

void RecordBackend::attend(const ActBuffer& q, int64_t n_tok, const AttendArgs& args,
                           std::span<const Segment> segments, ActBuffer& y) {
    append(AttendOp{.q = read(&q),
                    .cache = cache_,
                    .n_head = args.n_head,
                    .scale = args.scale,
                    .softcap = args.softcap,
                    .window = args.window,
                    .sinks = vector(args.sinks),
                    .rows = rows_of(segments),
                    .y = {write(y, n_tok)}});
}

void RecordBackend::ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) {
    append(FfnGateUpOp{.x = read(&x),
                       .gate = weight(args.gate),
                       .up = weight(args.up),
                       .shared_expert_gate = weight(args.shared_expert_gate),
                       .gate_bias = vector(args.gate_bias),
                       .up_bias = vector(args.up_bias),
                       .activation = args.activation,
                       .y = {write(y, n_tok)}});
}

void RecordBackend::moe_route(const ActBuffer& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) {
    Slot slot{.name = "routes", .rows = n_tok, .dim = routes.n_used, .n_expert = routes.n_expert};
    append(MoeRouteOp{.x = read(&x),
                      .w = weight(args.w),
                      .bias = vector(args.bias),
                      .kind = args.kind,
                      .routes = {write(&routes, std::move(slot))}});
}

void RecordBackend::moe_gate_up(const ActBuffer& x, int64_t n_tok, const MoeRoutes& routes,
                                const FfnGateUpArgs& args, ActBuffer& gathered, ActBuffer& y) {
    const int64_t n_rows = n_tok * routes.n_used;
    append(MoeGateUpOp{.x = read(&x),
                       .routes = read(&routes),
                       .gate = weight(args.gate),
                       .up = weight(args.up),
                       .gate_bias = vector(args.gate_bias),
                       .up_bias = vector(args.up_bias),
                       .activation = args.activation,
                       .gathered = {write(gathered, n_rows)},
                       .y = {write(y, n_rows)}});
}

void RecordBackend::moe_down(const ActBuffer& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                             const Vector& bias, float scale, ActBuffer& rows, ActBuffer& out) {
    append(MoeDownOp{.y = read(&y),
                     .routes = read(&routes),
                     .down = weight(down),
                     .bias = vector(bias),
                     .scale = scale,
                     .rows = {write(rows, n_tok * routes.n_used)},
                     .out = update(out, n_tok)});
}

}  // namespace tessera::record
