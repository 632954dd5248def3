#pragma once
// Collects the ranges of a model's activations: runs the forward pass with the operations that a device could
// compute in floats, observing every value.
#include <memory>

#include "src/engine/session.h"
#include "src/npu/npu_backend.h"
#include "src/npu/ranges.h"
#include "src/npu/reference_runners.h"

namespace tessera::measure {

class NpuCalibration {
  public:
    /// Interposes itself in the session's passes as long as it lives. The session must outlive it, and its
    /// model must have unpacked weights (Model::Options::pack off). Errors: packed weights, no operation that
    /// a device could compute, out of memory.
    static Result<std::unique_ptr<NpuCalibration>> create(engine::Session& session, int64_t n_batch);
    ~NpuCalibration();
    NpuCalibration(const NpuCalibration&) = delete;
    NpuCalibration& operator=(const NpuCalibration&) = delete;

    /// Computes one chunk of text from an empty cache. Errors: those of Session::eval.
    Result<void> add(std::span<const int32_t> tokens);

    /// The ranges over all chunks. Malformed names an activation with a value that is not finite.
    Result<npu::Ranges> take(uint64_t model_digest) const;

  private:
    explicit NpuCalibration(engine::Session& session) : session_(session) {}

    engine::Session& session_;
    record::Program program_;
    npu::Partition parts_;
    std::unique_ptr<CpuBackend> products_;
    std::unique_ptr<npu::FloatRunner> runner_;
    std::unique_ptr<npu::NpuBackend> backend_;
    std::vector<npu::RangeCollector> collectors_;  // [n_segments]
    int64_t n_tok_ = 0;
};

}  // namespace tessera::measure
