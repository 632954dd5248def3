#pragma once
// Test models compiled for a device, and their reference node by node.
#include "src/npu/compile_model.h"
#include "src/npu/device_run.h"
#include "src/npu/reference_runners.h"
#include "tests/npu/graph_support.h"
#include "tests/npu/orders.h"
#include "tests/npu/support.h"
#include "tests/npu/usable_kernels.h"

namespace tessera::npu::test {

struct DeviceCase {
    std::vector<record::Program> programs;
    std::vector<const record::Program*> pointers;
    Partition parts;  // with the segments that were compiled
    Ranges ranges;
    QuantizedMatrices matrices;
    HtpDevice device;
    CompiledModel compiled;
    std::unique_ptr<IntegerRunner> reference;

    /// Fails the test on an error; then `reference` is null. vtcm_bytes: replaces the device's.
    DeviceCase(const Model& model, ThreadPool& pool, const std::string& device_name,
               const std::string& recipe, std::vector<int64_t> rows, std::vector<int64_t> contexts,
               const Selection& selection = {}, int64_t vtcm_bytes = 0)
        : matrices(*open_recipe(recipe)), device(*open_device(device_name)) {
        if (vtcm_bytes > 0) device.vtcm_bytes = vtcm_bytes;
        for (const int64_t n : rows)
            programs.push_back(program_of(model, n, contexts.back(), RecordedLogits::All));
        for (const record::Program& program : programs) pointers.push_back(&program);
        parts = *partition(programs.back(), selection, device, matrices.recipe());
        set_ranges(model, pool);
        auto made = compile_model({pointers, parts.segments, contexts, device, ranges, matrices});
        if (!made) ADD_FAILURE() << made.error().message;
        if (!made) return;
        compiled = std::move(*made);
        parts.set_segments(compiled.ranges);
        auto runner =
            IntegerRunner::create(programs.back(), parts.segments, contexts.back(), matrices, ranges);
        if (!runner) ADD_FAILURE() << runner.error().message;
        if (runner) reference = std::move(*runner);
    }
    DeviceCase(const DeviceCase&) = delete;
    DeviceCase& operator=(const DeviceCase&) = delete;

    /// For models that are only partly the device's the ranges are arbitrary.
    void set_ranges(const Model& model, ThreadPool& pool) {
        if (lower(programs.back(), 160)) {
            ranges = ranges_of(model, pool, some_tokens(32), 64);
            return;
        }
        ranges.n_tok = 1;
        for (const DeviceRange& range : parts.segments) {
            const Graph graph = *lower(programs.back(), range, 160);
            for (const GraphValue& value : graph.values) ranges.of[value.name] = {-3, 2.5};
        }
    }

    std::unique_ptr<DeviceRun> run(const TileKernels& kernels, ThreadPool& pool,
                                   DeviceRun::Copies copies = DeviceRun::Copies::Made) const {
        auto made = DeviceRun::create(compiled.model, kernels, pool, copies);
        if (!made) ADD_FAILURE() << made.error().message;
        return made ? std::move(*made) : nullptr;
    }
};

/// The inputs of each segment in a pass, and a runner's outputs.
using PassData = std::vector<std::vector<std::vector<float>>>;  // by segment and port

inline PassData any_inputs(Draw& draw, const DeviceModel& model, int64_t n_rows) {
    PassData data;
    for (const DeviceSegment& segment : model.segments) {
        auto& ports = data.emplace_back();
        for (const Port& port : segment.graphs.front().inputs) {
            std::vector<float>& x = ports.emplace_back();
            const Encoding& e = port.encoding;
            for (int64_t i = 0; i < n_rows * port.dim; ++i)
                x.push_back(static_cast<float>(draw.integer(0, e.max()) - e.zero) * e.scale);
        }
    }
    return data;
}

inline PassData outputs_of(SegmentRunner& runner, const DeviceModel& model, const Pass& pass,
                           const PassData& inputs) {
    PassData data;
    for (size_t s = 0; s < inputs.size(); ++s) {
        auto& ports = data.emplace_back();
        std::vector<const float*> from;
        for (const auto& x : inputs[s]) from.push_back(x.data());
        for (const Port& port : model.segments[s].graphs.front().outputs)
            ports.emplace_back(static_cast<size_t>(pass.n_valid * port.dim));
        std::vector<float*> to;
        for (auto& y : ports) to.push_back(y.data());
        runner.run(s, pass, from, to);
    }
    return data;
}

inline const TileKernels& best_kernels() { return *usable_kernels().front(); }

}  // namespace tessera::npu::test
