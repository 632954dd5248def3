#pragma once
// Reference runners of a model's segments, node by node: in float, to collect the ranges of values, and in
// scalar integers, which the emulated device must match bit for bit.
#include <memory>

#include "src/npu/float_run.h"
#include "src/npu/integer_run.h"
#include "src/npu/partition.h"
#include "src/npu/segment_runner.h"

namespace tessera::npu {

/// The graphs of the ranges, each allocated separately, because runs keep pointers to them.
Result<std::vector<std::unique_ptr<const Graph>>> lower_all(const record::Program& program,
                                                            std::span<const DeviceRange> ranges,
                                                            int64_t n_ctx);

class FloatRunner final : public SegmentRunner {
  public:
    /// Called for values of the segment's graph.
    using Observer = std::function<void(size_t segment, GraphValueId, std::span<const float>)>;

    /// Program and backend must outlive this object; see FloatRun::create.
    static Result<std::unique_ptr<FloatRunner>> create(const record::Program& program,
                                                       std::span<const DeviceRange> ranges, int64_t n_ctx,
                                                       Backend& backend);

    /// Sets the observer of all later runs.
    void observe(Observer observer) { observer_ = std::move(observer); }
    const Graph& graph(size_t segment) const { return *graphs_[segment]; }

    int64_t max_rows(size_t) const override { return n_tok_; }
    void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
             std::span<float* const> outputs) override;

  private:
    FloatRunner() = default;

    int64_t n_tok_ = 0;
    std::vector<std::unique_ptr<const Graph>> graphs_;
    std::vector<FloatRun> runs_;
    Observer observer_;
};

class IntegerRunner final : public SegmentRunner {
  public:
    /// The program must outlive this object; see IntegerRun::create.
    static Result<std::unique_ptr<IntegerRunner>> create(const record::Program& program,
                                                         std::span<const DeviceRange> ranges, int64_t n_ctx,
                                                         QuantizedMatrices& matrices, const Ranges& found);

    int64_t max_rows(size_t) const override { return n_tok_; }
    void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
             std::span<float* const> outputs) override;

  private:
    IntegerRunner() = default;

    int64_t n_tok_ = 0;
    std::vector<std::unique_ptr<const Graph>> graphs_;
    std::vector<IntegerRun> runs_;
};

}  // namespace tessera::npu
