// Recording: a visitor replaces each operand of an operation by its number, first those that are read, then
// those that are written. Assumes one sequence and the segments from segments(), so that "all tokens" and
// "the last token" are the only selections of rows.
#include "ggml-like/record/recorder.h"

#include "common/expected.h"

namespace tessera::record {

RecordBackend::RecordBackend(int64_t n_tok, int32_t n_layer_groups, const TensorNames& names, bool all_floats)
    : names_(names),
      tokens_(static_cast<size_t>(n_tok)),
      no_pages_(static_cast<size_t>(n_layer_groups)),
      all_floats_(all_floats) {
    program_.n_tok = n_tok;
    program_.n_layer_groups = n_layer_groups;
    for (std::byte*& group : no_pages_) segments_.push_back({&group, 0, n_tok, 0});
}

Program RecordBackend::finish(const ActBuffer* output) {
    program_.output = held(output);
    complete(program_, all_floats_);
    return std::move(program_);
}

ValueId RecordBackend::held(const void* buffer) const {
    if (!buffer) return {};
    const auto found = held_.find(buffer);
    TSR_CHECK(found != held_.end());
    return found->second;
}

ValueId RecordBackend::write(const void* buffer, Slot slot) {
    const Id<Slot> at{static_cast<int32_t>(program_.slots.size())};
    const ValueId value{static_cast<int32_t>(program_.values.size())};
    program_.values.push_back({.slot = at, .rows = slot.rows});
    program_.slots.push_back(std::move(slot));
    return held_[buffer] = value;
}

ValueId RecordBackend::write(ActBuffer& act) {
    const Shape shape = shapes_.at(&act);
    act.dim = shape.dim;
    return write(&act, {.name = act.name,
                        .rows = shape.rows,
                        .dim = shape.dim,
                        .skips_floats = shape.floats == Floats::IfRead});
}

Update RecordBackend::update(ActBuffer& act) {
    const ValueId before = held(&act);
    const ValueId after{static_cast<int32_t>(program_.values.size())};
    program_.values.push_back({.slot = program_[before].slot, .rows = shapes_.at(&act).rows});
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

/// The cache of a layer, which is identified by its place in the pages of its layer group.
CacheId RecordBackend::cache(const KvLayer& kv, std::span<const Segment> segments) {
    const auto group = static_cast<int32_t>(segments.front().pages - no_pages_.data());
    int32_t at = 0;
    for (const Cache& known : program_.caches) {
        if (known.layer_group == group && known.where.k_offset == kv.k_offset) return {at};
        ++at;
    }
    program_.caches.push_back({kv, group});
    return {at};
}

Rows RecordBackend::rows_of(std::span<const Segment> segments) const {
    TSR_CHECK(segments.size() == 1);
    const Segment& segment = segments.front();
    TSR_CHECK(segment.row0 + segment.n_tok == program_.n_tok && segment.pos0 == segment.row0);
    TSR_CHECK(segment.row0 == 0 || segment.n_tok == 1);
    return segment.row0 == 0 ? Rows::All : Rows::Last;
}

/// Notes the shapes of the buffers that an operation writes.
struct RecordBackend::Shapes {
    RecordBackend& recorder;

    void operator()(const void* buffer, int64_t rows, int64_t dim, Floats floats = Floats::Always) const {
        if (buffer) recorder.shapes_[buffer] = {rows, dim, floats};
    }
};

/// Operands that are read, and constants.
struct RecordBackend::Inputs {
    RecordBackend& recorder;
    std::span<const Segment> segments = {};

    void operator()(FieldName, const void* from, Read& to) const { to = {recorder.held(from)}; }
    void operator()(FieldName, const Weight& from, WeightId& to) const { to = recorder.weight(from); }
    void operator()(FieldName, const Vector& from, VectorId& to) const { to = recorder.vector(from); }
    void operator()(FieldName, const RopeSpec& from, RopeId& to) const {
        to = {static_cast<int32_t>(recorder.program_.ropes.size())};
        recorder.program_.ropes.push_back(
            {from.kind, {from.freq, from.freq + from.n_rot / 2}, from.magnitude});
    }
    void operator()(FieldName, const KvLayer& from, CacheId& to) const {
        to = recorder.cache(from, segments);
    }
    void operator()(FieldName, std::span<const Segment> from, Rows& to) const { to = recorder.rows_of(from); }
    void operator()(FieldName, std::span<const int32_t> from, Rows& to) const {
        TSR_CHECK(from.size() == 1 && from[0] == recorder.program_.n_tok - 1);
        to = Rows::Last;
    }
    void operator()(FieldName, std::span<const int32_t> from, Tokens&) const {
        TSR_CHECK(std::ssize(from) == recorder.program_.n_tok);
    }
    void operator()(FieldName, std::span<const Segment>, Positions&) const {}
    template <class Constant>
    void operator()(FieldName, const Constant& from, Constant& to) const {
        to = from;
    }
    void operator()(FieldName, const void*, Write&) const {}
    void operator()(FieldName, const void*, Update&) const {}
    void operator()(FieldName, const void*, Scratch&) const {}
};

/// Operands that are written.
struct RecordBackend::Outputs {
    RecordBackend& recorder;
    bool accumulates = true;  // whether an Update reads the value before

    void operator()(FieldName, ActBuffer* from, Write& to) const { to = {recorder.write(*from)}; }
    void operator()(FieldName, ActBuffer* from, Scratch& to) const {
        if (from) to = {recorder.write(*from)};
    }
    void operator()(FieldName, ActBuffer* from, Update& to) const {
        if (accumulates)
            to = recorder.update(*from);
        else
            to = {{}, recorder.write(*from)};
    }
    void operator()(FieldName, MoeRoutes* from, Write& to) const {
        const Shape shape = recorder.shapes_.at(from);
        to = {recorder.write(
            from, {.name = "routes", .rows = shape.rows, .dim = shape.dim, .n_expert = from->n_expert})};
    }
    template <class From, class To>
    void operator()(FieldName, const From&, To&) const {}
};

template <template <class> class Name>
void RecordBackend::append(const Name<Direct>& op) {
    Name<Recorded> out;
    Inputs inputs{*this};
    if constexpr (requires { op.segments; }) inputs.segments = op.segments;
    if constexpr (requires { op.is_valid(); }) TSR_CHECK(op.is_valid());
    Outputs outputs{*this};
    if constexpr (requires { op.overwrites(); }) outputs.accumulates = !op.overwrites();
    shapes_.clear();
    op.shapes(Shapes{*this});
    Name<Direct>::fields(inputs, op, out);
    Name<Direct>::fields(outputs, op, out);
    program_.ops.push_back({.layer = -1, .verb = std::move(out)});
}

void RecordBackend::run(const tessera::Op& op) {
    std::visit([this](const auto& one) { append(one); }, op);
}

}  // namespace tessera::record
