// A graph and its run for each segment. Keys and values of a layer belong to the run of the only segment that
// attends to them.
#include "src/npu/reference_runners.h"

#include "src/npu/lower.h"

namespace tessera::npu {

Result<std::vector<std::unique_ptr<const Graph>>> lower_all(const record::Program& program,
                                                            std::span<const DeviceRange> ranges,
                                                            int64_t n_ctx) {
    std::vector<std::unique_ptr<const Graph>> graphs;
    for (const DeviceRange& range : ranges) {
        TSR_TRY(Graph graph, lower(program, range, n_ctx));
        graphs.push_back(std::make_unique<const Graph>(std::move(graph)));
    }
    return graphs;
}

Result<std::unique_ptr<FloatRunner>> FloatRunner::create(const record::Program& program,
                                                         std::span<const DeviceRange> ranges, int64_t n_ctx,
                                                         Backend& backend) {
    std::unique_ptr<FloatRunner> out(new FloatRunner());
    out->n_tok_ = program.n_tok;
    TSR_TRY(out->graphs_, lower_all(program, ranges, n_ctx));
    for (const auto& graph : out->graphs_) {
        TSR_TRY(FloatRun run, FloatRun::create(*graph, backend));
        out->runs_.push_back(std::move(run));
    }
    return out;
}

void FloatRunner::run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
                      std::span<float* const> outputs) {
    FloatRun::Observer observe;
    if (observer_) observe = [&](GraphValueId id, std::span<const float> x) { observer_(segment, id, x); };
    runs_[segment].run(pass, inputs, outputs, observe);
}

Result<std::unique_ptr<IntegerRunner>> IntegerRunner::create(const record::Program& program,
                                                             std::span<const DeviceRange> ranges,
                                                             int64_t n_ctx, QuantizedMatrices& matrices,
                                                             const Ranges& found) {
    std::unique_ptr<IntegerRunner> out(new IntegerRunner());
    out->n_tok_ = program.n_tok;
    TSR_TRY(out->graphs_, lower_all(program, ranges, n_ctx));
    for (const auto& graph : out->graphs_) {
        TSR_TRY(IntegerRun run, IntegerRun::create(*graph, matrices, found));
        out->runs_.push_back(std::move(run));
    }
    return out;
}

void IntegerRunner::run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
                        std::span<float* const> outputs) {
    runs_[segment].run(pass, inputs, outputs);
}

}  // namespace tessera::npu
