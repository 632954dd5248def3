// Every segment for every number of rows and of positions; all share constants and the place of the cache.
#include "src/npu/compile_model.h"

#include <algorithm>

#include "src/npu/compile_graph.h"
#include "src/npu/lower.h"

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
                "a context of %lld positions: expected rising multiples of 32 up to 65536, none below "
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

/// Which caches some segment fills.
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
    DeviceSegment segment{
        .first_op = range.first_op, .last_op = range.last_op, .attends = range.attends, .graphs = {}};
    for (const record::Program* program : request.programs) {
        // What does not attend is the same for all contexts.
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

}  // namespace

Result<CompiledModel> compile_model(const CompileRequest& request) {
    TSR_TRY_VOID(check(request));
    CompiledModel out;
    DeviceModel& model = out.model;
    const record::Program& program = *request.programs.front();
    model.device = request.device.name;
    model.device_hash = request.device.hash();
    model.model_hash = request.ranges.model;
    model.recipe_hash = request.matrices.recipe().hash();
    model.vtcm_bytes = request.device.vtcm_bytes;
    model.vtcm_span_bytes = request.device.vtcm_span_bytes;
    model.n_ctx = request.contexts.empty() ? 0 : request.contexts.back();
    CachePlan caches = plan_caches(program, used_caches(program, request.segments), model.n_ctx);
    GraphCompiler compiler(request.device, request.matrices, caches.caches, model.n_ctx);
    for (size_t i = 0; i < request.segments.size(); ++i) {
        auto segment = compile_segment(request, request.segments[i], compiler);
        if (!segment) return fail_in("segment " + std::to_string(i), std::move(segment.error()));
        for (const DeviceGraph& graph : segment->graphs)
            model.arena_bytes = std::max(model.arena_bytes, graph.arena_bytes);
        model.segments.push_back(std::move(*segment));
    }
    model.cache_bytes = caches.n_bytes;
    model.caches = std::move(caches.caches);
    out.constants = compiler.take_constants();
    model.constants = out.constants;
    return out;
}

}  // namespace tessera::npu
