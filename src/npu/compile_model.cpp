// Compiles every segment for every number of rows and every context size; those of one session share
// constants and cache offsets. The size of a session is known only after compiling it: the first attempt
// takes all pieces that might fit by the size of their matrices, and pieces are removed until the rest fits.
// A model that fits takes one session and one attempt.
#include "src/npu/compile_model.h"

#include <algorithm>

#include "common/strings.h"
#include "src/npu/compile_graph.h"
#include "src/npu/lower.h"
#include "src/npu/session_cut.h"

namespace tessera::npu {

namespace {

Result<void> check(const CompileRequest& request) {
    int64_t before = 0;
    for (const record::Program* program : request.programs) {
        if (program->n_tok <= before)
            return fail(ErrorCode::InvalidArgument, "rows of a pass: expected rising numbers, found %lld",
                        static_cast<long long>(program->n_tok));
        before = program->n_tok;
    }
    if (request.programs.empty())
        return fail(ErrorCode::InvalidArgument, "rows of a pass: expected at least one number");
    before = 0;
    for (const int64_t n_ctx : request.contexts) {
        if (n_ctx <= before || n_ctx % 32 != 0 || n_ctx > 65536 || n_ctx < request.programs.back()->n_tok)
            return fail(
                ErrorCode::InvalidArgument,
                "a context of %lld tokens: expected increasing multiples of 32 up to 65536, none below "
                "the %lld rows of a pass",
                static_cast<long long>(n_ctx), static_cast<long long>(request.programs.back()->n_tok));
        before = n_ctx;
    }
    const bool attends = std::any_of(request.segments.begin(), request.segments.end(),
                                     [](const DeviceRange& range) { return range.attends; });
    if (attends && request.contexts.empty())
        return fail(ErrorCode::InvalidArgument, "attention on the device: expected a context");
    return {};
}

/// The caches that any segment writes.
std::vector<bool> used_caches(const record::Program& program, std::span<const DeviceRange> segments) {
    std::vector<bool> used(program.caches.size());
    for (const DeviceRange& range : segments)
        for (int32_t i = range.first_op; i <= range.last_op; ++i)
            if (const auto* qkv = std::get_if<record::QkvOp>(&program.ops[static_cast<size_t>(i)].verb))
                used[static_cast<size_t>(qkv->cache.at)] = true;
    return used;
}

Result<DeviceSegment> compile_segment(const CompileRequest& request, const DeviceRange& range,
                                      GraphCompiler& compiler) {
    DeviceSegment segment{.first_op = range.first_op,
                          .last_op = range.last_op,
                          .attends = range.attends,
                          .session = 0,
                          .graphs = {}};
    for (const record::Program* program : request.programs) {
        // Segments without attention are the same for all context sizes.
        const int64_t none[] = {program->n_tok};
        for (const int64_t n_ctx : range.attends ? request.contexts : std::span<const int64_t>(none)) {
            TSR_TRY(const Graph graph, lower(*program, range, n_ctx));
            TSR_TRY(const std::vector<Encoding> encodings,
                    encode_values(graph, request.matrices.recipe(), request.ranges));
            TSR_TRY(DeviceGraph compiled, compiler.compile(graph, encodings));
            segment.graphs.push_back(std::move(compiled));
        }
    }
    return segment;
}

/// The content of one address space.
struct Session {
    std::vector<DeviceRange> ranges;
    std::vector<DeviceSegment> segments;
    CachePlan caches;
    std::vector<std::byte> constants;
    DeviceSession memory;  // sizes
};

int64_t cache_positions(const CompileRequest& request) {
    return request.contexts.empty() ? 0 : request.contexts.back();
}

Result<Session> compile_session(const CompileRequest& request, std::span<const SessionPiece> pieces,
                                GraphCompiler& compiler) {
    const record::Program& program = *request.programs.front();
    Session out;
    out.ranges = ranges_of(program, pieces);
    out.caches = plan_caches(program, used_caches(program, out.ranges), cache_positions(request));
    compiler.start_session(out.caches.caches);
    compiler.reserve(program, out.ranges);
    for (size_t i = 0; i < out.ranges.size(); ++i) {
        auto segment = compile_segment(request, out.ranges[i], compiler);
        if (!segment)
            return fail_in(strf("segment %zu", static_cast<size_t>(pieces.front().segment) + i),
                           std::move(segment.error()));
        for (const DeviceGraph& graph : segment->graphs)
            out.memory.arena.bytes = std::max(out.memory.arena.bytes, graph.arena_bytes);
        out.segments.push_back(std::move(*segment));
    }
    out.constants = compiler.take_constants();
    out.memory.constants.bytes = std::ssize(out.constants);
    out.memory.cache.bytes = out.caches.n_bytes;
    return out;
}

/// Upper bound of the number of pieces that fit into a session, at least one.
size_t most_pieces(std::span<const SessionPiece> pieces, int64_t session_bytes) {
    size_t n = 1;
    int64_t n_bytes = pieces.front().least_bytes;
    while (n < pieces.size() && n_bytes + pieces[n].least_bytes <= session_bytes)
        n_bytes += pieces[n++].least_bytes;
    return n;
}

/// Compiles a session of as many pieces as fit, ending at the preferred kind of boundary, and removes them
/// from the front.
Result<Session> fill_session(const CompileRequest& request, GraphCompiler& compiler,
                             std::span<const SessionPiece>& pieces) {
    const int64_t session_bytes = request.device.session_bytes;
    size_t most = most_pieces(pieces, session_bytes);
    DeviceSession smallest;
    for (const SessionPiece::End end : kSessionEnds)
        for (size_t n = most; n > 0; --n) {
            if (pieces[n - 1].end != end) continue;
            TSR_TRY(Session session, compile_session(request, pieces.first(n), compiler));
            if (session.memory.bytes() <= session_bytes) {
                pieces = pieces.subspan(n);
                return session;
            }
            smallest = session.memory;
            most = n - 1;
        }
    const record::Program& program = *request.programs.front();
    const auto name = [&](int32_t i) { return op_name(program, program.ops[static_cast<size_t>(i)]); };
    return fail(ErrorCode::OutOfMemory,
                "%s to %s: expected at most the %lld bytes of a session of '%s', found %lld (constants %lld, "
                "activations %lld, keys and values %lld); leave them on the CPU, or compile for fewer "
                "rows or positions",
                name(pieces.front().first_op).c_str(), name(pieces.front().last_op).c_str(),
                static_cast<long long>(session_bytes), request.device.name.c_str(),
                static_cast<long long>(smallest.bytes()), static_cast<long long>(smallest.constants.bytes),
                static_cast<long long>(smallest.arena.bytes), static_cast<long long>(smallest.cache.bytes));
}

/// Appends a session to the model.
void append(Session session, CompiledModel& to) {
    DeviceModel& model = to.model;
    const auto index = static_cast<int32_t>(model.sessions.size());
    model.sessions.push_back(session.memory);
    place_sessions(model);
    if (to.constants.empty()) {
        to.constants = std::move(session.constants);
    } else {
        to.constants.resize(model.sessions.back().constants.at);
        to.constants.insert(to.constants.end(), session.constants.begin(), session.constants.end());
    }
    for (DeviceSegment& segment : session.segments) {
        segment.session = index;
        model.segments.push_back(std::move(segment));
    }
    to.ranges.insert(to.ranges.end(), session.ranges.begin(), session.ranges.end());
    model.caches.resize(session.caches.caches.size());
    for (size_t i = 0; i < model.caches.size(); ++i) {
        const DeviceCache& cache = session.caches.caches[i];
        if (cache.n_head == 0 && index > 0) continue;
        model.caches[i] = cache;
        model.caches[i].session = cache.n_head > 0 ? index : 0;
    }
}

}  // namespace

Result<CompiledModel> compile_model(const CompileRequest& request) {
    TSR_TRY_VOID(check(request));
    CompiledModel out;
    DeviceModel& model = out.model;
    model.device = request.device.name;
    model.device_hash = request.device.hash();
    model.model_hash = request.ranges.model;
    model.recipe_hash = request.matrices.recipe().hash();
    model.ranges_hash = request.ranges.hash();
    model.vtcm_bytes = request.device.vtcm_bytes;
    model.vtcm_span_bytes = request.device.vtcm_span_bytes;
    model.n_ctx = cache_positions(request);
    GraphCompiler compiler(request.device, request.matrices, model.n_ctx);
    const std::vector<SessionPiece> all =
        session_pieces(*request.programs.front(), request.segments, request.matrices.recipe(), model.n_ctx);
    for (std::span<const SessionPiece> pieces = all; !pieces.empty();) {
        TSR_TRY(Session session, fill_session(request, compiler, pieces));
        append(std::move(session), out);
    }
    model.constants = out.constants;
    return out;
}

std::vector<DeviceOp> device_ops(const record::Program& program, const Partition& partition) {
    std::vector<DeviceOp> out;
    for (size_t i = 0; i < program.ops.size(); ++i) {
        const Placement& placement = partition.ops[i];
        out.push_back({op_name(program, program.ops[i]), placement.segment, placement.reason});
    }
    return out;
}

}  // namespace tessera::npu
