// Inputs and outputs of the emulated device: floats to integer tiles and back. emulator.cpp executes the
// instructions.
#include "src/npu/device_run.h"

#include <algorithm>

#include "common/log.h"
#include "common/strings.h"
#include "src/npu/layout.h"
#include "src/npu/model_check.h"

namespace tessera::npu {

namespace {

ActLayout layout_of(const DeviceGraph& graph, const Port& port) {
    return {graph.n_tok, port.dim, port.encoding.bits / 8};
}

}  // namespace

Memory memory_of(const DeviceSession& session, const Memory& all) {
    const auto part = [&all](Region region, const Extent& extent) {
        return all[static_cast<size_t>(region)].subspan(extent.at, static_cast<size_t>(extent.bytes));
    };
    return {part(Region::Constants, session.constants), part(Region::Arena, session.arena),
            part(Region::Cache, session.cache)};
}

Result<std::unique_ptr<DeviceRun>> DeviceRun::create(const DeviceModel& model, const TileKernels& kernels,
                                                     ThreadPool& pool, Copies copies) {
    TSR_TRY_VOID(check_device_model(model));
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
            for (const DeviceGraph& graph : segment.graphs)
                streams.push_back(direct_stream(graph.stream, model.constants));
        }
    return run;
}

DeviceRun::Needs DeviceRun::needs(const DeviceModel& model, int n_threads, Copies copies) {
    Needs out{.arena = static_cast<uint64_t>(model.arena_bytes),
              .cache = static_cast<uint64_t>(model.cache_bytes),
              .vtcm = static_cast<uint64_t>(model.vtcm_bytes),
              .scratch = VectorUnit::scratch_bytes(n_threads)};
    if (copies == Copies::Made) return out;
    // Which copies can be left out is known only from the streams.
    for (const DeviceSegment& segment : model.segments)
        for (const DeviceGraph& graph : segment.graphs) {
            const DirectStream stream = direct_stream(graph.stream, model.constants);
            out.streams += stream.instructions.capacity() * sizeof(DirectInstruction) +
                           stream.redirects.capacity() * sizeof(Redirect);
        }
    return out;
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
    // The constants are read-only.
    const std::span<std::byte> constants(const_cast<std::byte*>(model_->constants.data()),
                                         model_->constants.size());
    const auto session = static_cast<size_t>(model_->segments[segment].session);
    const Memory memory = memory_of(model_->sessions[session], {constants, arena(), cache()});
    for (size_t i = 0; i < inputs.size(); ++i)
        write(*graph, graph->inputs[i], memory, inputs[i], pass.n_valid);
    if (order_) {
        const auto ran = emulator_.run_reordered(graph->stream, memory, *order_, pass);
        TSR_CHECK(ran.has_value());
    } else if (!direct_.empty()) {
        const auto index = static_cast<size_t>(graph - model_->segments[segment].graphs.data());
        emulator_.run(direct_[segment][index], memory, pass);
    } else {
        emulator_.run(graph->stream, memory, pass);
    }
    for (size_t i = 0; i < outputs.size(); ++i)
        read(*graph, graph->outputs[i], memory, outputs[i], pass.n_valid);
}

void DeviceRun::write(const DeviceGraph& graph, const Port& port, const Memory& memory, const float* rows,
                      int64_t n_rows) {
    const ActLayout layout = layout_of(graph, port);
    const auto bytes = memory[static_cast<size_t>(Region::Arena)].subspan(
        port.arena_offset, static_cast<size_t>(layout.bytes()));
    int64_t n_nan = 0;
    for (int64_t row = 0; row < n_rows; ++row) {
        n_nan += quantize(port.encoding, rows + row * port.dim, port.dim, row_.data());
        pack_row(layout, row, row_.data(), bytes);
    }
    if (n_nan == 0 || warned_) return;
    warned_ = true;
    log::warn("%lld NaN values of '%s' were passed to the NPU as zeros; further ones are not reported",
              static_cast<long long>(n_nan), printable(port.name).c_str());
}

void DeviceRun::read(const DeviceGraph& graph, const Port& port, const Memory& memory, float* rows,
                     int64_t n_rows) {
    const ActLayout layout = layout_of(graph, port);
    const std::span<const std::byte> bytes = memory[static_cast<size_t>(Region::Arena)].subspan(
        port.arena_offset, static_cast<size_t>(layout.bytes()));
    for (int64_t row = 0; row < n_rows; ++row) {
        unpack_row(layout, row, bytes, row_.data());
        dequantize(port.encoding, row_.data(), port.dim, rows + row * port.dim);
    }
}

}  // namespace tessera::npu
