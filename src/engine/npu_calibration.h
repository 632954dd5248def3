#pragma once
// Finding the ranges of a model's activations: the one forward pass, with what a device could compute of it
// done in floats, value by value.
#include <memory>

#include "src/engine/session.h"
#include "src/npu/npu_backend.h"
#include "src/npu/ranges.h"
#include "src/npu/reference_runners.h"

namespace tessera::engine {

class NpuCalibration {
  public:
    /// The session's passes go through this while it lives; it outlives this, and its model's weights are as
    /// in the file (Model::Options::pack off). Errors: weights that are packed, nothing that a device could
    /// compute, no memory.
    static Result<std::unique_ptr<NpuCalibration>> create(Session& session, int64_t n_batch);
    ~NpuCalibration();
    NpuCalibration(const NpuCalibration&) = delete;
    NpuCalibration& operator=(const NpuCalibration&) = delete;

    /// Computes one piece of text from an empty cache. Errors: those of Session::eval.
    Result<void> add(std::span<const int32_t> tokens);

    /// Of all pieces. Malformed names an activation that was no finite number.
    Result<npu::Ranges> take(uint64_t model_digest) const;

  private:
    explicit NpuCalibration(Session& session) : session_(session) {}

    Session& session_;
    record::Program program_;
    npu::Partition parts_;
    std::unique_ptr<CpuBackend> products_;
    std::unique_ptr<npu::FloatRunner> runner_;
    std::unique_ptr<npu::NpuBackend> backend_;
    std::vector<npu::RangeCollector> collectors_;  // by segment
    int64_t n_tok_ = 0;
};

}  // namespace tessera::engine
