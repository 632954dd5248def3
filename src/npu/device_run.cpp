// The edges of the emulated device: floats to tiles of integers and back. What happens between is
// emulator.cpp's.
#include "src/npu/device_run.h"

#include <algorithm>
#include <cmath>

#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

ActLayout layout_of(const DeviceGraph& graph, const Port& port) {
    return {graph.n_tok, port.dim, port.encoding.bits / 8};
}

/// Limits of sizes in a file, far above any model: what is computed from them stays within 64 bits.
constexpr int64_t kMostRows = 1 << 16, kMostPositions = 1 << 20, kMostBytes = int64_t{1} << 44;

Result<void> check_port(const DeviceGraph& graph, const Port& port, int64_t arena_bytes) {
    const Encoding& e = port.encoding;
    const bool is_sound = (e.bits == 8 || e.bits == 16) && std::isfinite(e.scale) && e.scale > 0 &&
                          e.zero >= 0 && e.zero <= e.max();
    if (!is_sound || port.dim < 1 || port.dim > kMostPositions)
        return fail(ErrorCode::Malformed, "the encoding or the width of '%s' makes no sense",
                    port.name.c_str());
    if (port.arena_offset > static_cast<uint64_t>(arena_bytes) ||
        static_cast<uint64_t>(layout_of(graph, port).bytes()) >
            static_cast<uint64_t>(arena_bytes) - port.arena_offset)
        return fail(ErrorCode::Malformed, "'%s' is outside of the arena", port.name.c_str());
    return {};
}

Result<void> check_graph(const DeviceModel& model, const DeviceSegment& segment, const DeviceGraph& graph) {
    if (graph.n_tok < 1 || graph.n_tok > kMostRows)
        return fail(ErrorCode::Malformed, "its number of rows makes no sense");
    if (segment.attends ? graph.n_ctx < 1 || graph.n_ctx > model.n_ctx : graph.n_ctx != 0)
        return fail(ErrorCode::Malformed, "its number of positions makes no sense");
    for (const auto* ports : {&graph.inputs, &graph.outputs})
        for (const Port& port : *ports) TSR_TRY_VOID(check_port(graph, port, model.arena_bytes));
    const DeviceGraph& first = segment.graphs.front();
    if (graph.inputs.size() != first.inputs.size() || graph.outputs.size() != first.outputs.size())
        return fail(ErrorCode::Malformed, "its inputs and outputs are not those of the segment");
    for (size_t i = 0; i < graph.nodes.size(); ++i)
        if (graph.nodes[i].first > graph.stream.size() ||
            (i > 0 && graph.nodes[i].first < graph.nodes[i - 1].first))
            return fail(ErrorCode::Malformed, "its nodes are not in the order of the stream");
    const int64_t n_ctx = segment.attends ? graph.n_ctx : graph.n_tok;
    return check_stream(graph.stream, {.vtcm_bytes = model.vtcm_bytes,
                                       .span_bytes = model.vtcm_span_bytes,
                                       .region_bytes = {static_cast<int64_t>(model.constants.size()),
                                                        model.arena_bytes, model.cache_bytes},
                                       .pass = {.n_tok = graph.n_tok, .n_ctx = n_ctx}});
}

}  // namespace

Result<void> check_model(const DeviceModel& model) {
    for (const int64_t n_bytes : {model.vtcm_bytes, model.arena_bytes, model.cache_bytes})
        if (n_bytes < 0 || n_bytes > kMostBytes)
            return fail(ErrorCode::Malformed, "compiled model: %lld bytes of memory make no sense",
                        static_cast<long long>(n_bytes));
    if (model.n_ctx < 0 || model.n_ctx > kMostPositions || model.vtcm_span_bytes < 0)
        return fail(ErrorCode::Malformed, "compiled model: its sizes make no sense");
    for (size_t s = 0; s < model.segments.size(); ++s) {
        const DeviceSegment& segment = model.segments[s];
        if (segment.graphs.empty()) return fail(ErrorCode::Malformed, "segment %zu has no graph", s);
        for (size_t g = 0; g < segment.graphs.size(); ++g) {
            const DeviceGraph& graph = segment.graphs[g];
            const auto size = [](const DeviceGraph& of) { return std::pair(of.n_tok, of.n_ctx); };
            if (g > 0 && size(segment.graphs[g - 1]) >= size(graph))
                return fail(ErrorCode::Malformed, "segment %zu: its graphs are not in order", s);
            if (auto checked = check_graph(model, segment, graph); !checked)
                return fail_in("segment " + std::to_string(s) + ", graph " + std::to_string(g),
                               std::move(checked.error()));
        }
    }
    return {};
}

Result<std::unique_ptr<DeviceRun>> DeviceRun::create(const DeviceModel& model, const TileKernels& kernels,
                                                     ThreadPool& pool, Copies copies) {
    TSR_TRY_VOID(check_model(model));
    TSR_TRY(Emulator emulator, Emulator::create(model.vtcm_bytes, kernels, pool));
    std::unique_ptr<DeviceRun> run(new DeviceRun(model, std::move(emulator)));
    TSR_TRY(run->arena_, Buffer::create(static_cast<size_t>(model.arena_bytes), "arena of the device"));
    TSR_TRY(run->cache_, Buffer::create(static_cast<size_t>(model.cache_bytes), "cache of the device"));
    int64_t widest = 0;
    for (const DeviceSegment& segment : model.segments)
        for (const DeviceGraph& graph : segment.graphs)
            for (const auto* ports : {&graph.inputs, &graph.outputs})
                for (const Port& port : *ports) widest = std::max(widest, port.dim);
    run->row_.resize(static_cast<size_t>(widest));
    if (copies == Copies::LeftOut)
        for (const DeviceSegment& segment : model.segments) {
            auto& streams = run->direct_.emplace_back();
            for (const DeviceGraph& graph : segment.graphs) streams.push_back(direct_stream(graph.stream));
        }
    return run;
}

const DeviceGraph* DeviceRun::graph_of(size_t segment, const Pass& pass) const {
    for (const DeviceGraph& graph : model_->segments[segment].graphs)
        if (graph.n_tok >= pass.n_valid && (graph.n_ctx == 0 || graph.n_ctx >= pass.n_past + pass.n_valid))
            return &graph;
    return nullptr;
}

void DeviceRun::run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
                    std::span<float* const> outputs) {
    const DeviceGraph* graph = graph_of(segment, pass);
    TSR_CHECK(graph && pass.n_valid > 0 && pass.n_past >= 0);
    TSR_CHECK(inputs.size() == graph->inputs.size() && outputs.size() == graph->outputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) write(*graph, graph->inputs[i], inputs[i], pass.n_valid);
    // The constants are only read.
    const std::span<std::byte> constants(const_cast<std::byte*>(model_->constants.data()),
                                         model_->constants.size());
    const Memory memory = {constants, arena(), cache()};
    if (order_) {
        const auto ran = emulator_.run_reordered(graph->stream, memory, *order_, pass);
        TSR_CHECK(ran.has_value());
    } else if (!direct_.empty()) {
        const auto index = static_cast<size_t>(graph - model_->segments[segment].graphs.data());
        emulator_.run(direct_[segment][index], memory, pass);
    } else {
        emulator_.run(graph->stream, memory, pass);
    }
    for (size_t i = 0; i < outputs.size(); ++i) read(*graph, graph->outputs[i], outputs[i], pass.n_valid);
}

void DeviceRun::write(const DeviceGraph& graph, const Port& port, const float* rows, int64_t n_rows) {
    const ActLayout layout = layout_of(graph, port);
    const auto bytes = arena().subspan(port.arena_offset, static_cast<size_t>(layout.bytes()));
    for (int64_t row = 0; row < n_rows; ++row) {
        n_nan_ += quantize(port.encoding, rows + row * port.dim, port.dim, row_.data());
        pack_row(layout, row, row_.data(), bytes);
    }
}

void DeviceRun::read(const DeviceGraph& graph, const Port& port, float* rows, int64_t n_rows) {
    const ActLayout layout = layout_of(graph, port);
    const std::span<const std::byte> bytes(arena_.data() + port.arena_offset,
                                           static_cast<size_t>(layout.bytes()));
    for (int64_t row = 0; row < n_rows; ++row) {
        unpack_row(layout, row, bytes, row_.data());
        dequantize(port.encoding, row_.data(), port.dim, rows + row * port.dim);
    }
}

}  // namespace tessera::npu
