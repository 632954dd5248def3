#pragma once
// A model of which an emulated NPU computes parts: compiled ahead of time to a file, or from ranges and a
// recipe when first needed. Shared by its sessions and engines.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ggml-like/gguf/file.h"
#include "src/engine/npu_model.h"
#include "src/engine/npu_phase.h"
#include "src/model/model.h"
#include "src/npu/compile_model.h"
#include "src/npu/context_file.h"
#include "src/npu/device_run.h"
#include "src/npu/npu_backend.h"

namespace tessera::engine {

class EmulatedNpuSession final : public NpuSession {
  public:
    Backend& backend() override { return *backend_; }
    /// The compiled model and its segments; valid as long as this.
    const npu::DeviceModel& compiled() const { return *compiled_; }
    const npu::DeviceRun& device() const { return *runner_; }

  private:
    friend class EmulatedNpuModel;
    EmulatedNpuSession() = default;

    std::shared_ptr<const NpuModel> model_;
    std::shared_ptr<const npu::CompiledModel> in_place_;  // null if compiled ahead of time
    const npu::DeviceModel* compiled_ = nullptr;
    record::Program program_;
    std::unique_ptr<npu::DeviceRun> runner_;
    std::unique_ptr<npu::NpuBackend> backend_;
};

class EmulatedNpuModel final : public NpuModel, public std::enable_shared_from_this<EmulatedNpuModel> {
  public:
    /// See create_npu_model().
    static Result<std::shared_ptr<EmulatedNpuModel>> create(gguf::File file,
                                                            const kernels::KernelTable& kernels,
                                                            const NpuOptions& options);

    Result<std::unique_ptr<NpuSession>> start(const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                              int64_t max_tok, int64_t max_out) override;
    Result<NpuNeeds> needs(const Model& model, int n_threads, int64_t n_ctx, int64_t max_tok,
                           int64_t max_out) const override;
    std::vector<bool> unused_weights() const override;
    bool owns_kv_cache() const override { return parts_.attends(); }

    /// Compiles for contexts of n_ctx as start() and `tessera npu compile` do: for 128 rows and for one, and
    /// for positions up to the context and, if that is longer, also up to 256. Any thread; uses the pool.
    /// Errors: those of start(); InvalidArgument if the model was compiled ahead of time.
    Result<std::shared_ptr<const npu::CompiledModel>> compile(int64_t n_ctx, ThreadPool& pool);

    const Model& model() const { return *model_; }
    const npu::HtpDevice& device() const { return device_; }
    /// For each operation of record_all_rows(), whether CPU or device computes it.
    const npu::Partition& parts() const { return parts_; }

  private:
    EmulatedNpuModel() = default;
    Result<void> read_context(const std::string& path, uint64_t digest);
    Result<void> prepare(const NpuOptions& options, uint64_t digest);
    Result<npu::CompiledModel> compile_for(int64_t n_ctx, ThreadPool& pool) const;
    Result<void> check_context(const Model& model, int64_t n_ctx) const;
    npu::DeviceRun::Copies copies() const {
        return fast_ ? npu::DeviceRun::Copies::LeftOut : npu::DeviceRun::Copies::Made;
    }
    Result<void> choose_phases(const record::Program& program, NpuPhase wanted);

    std::shared_ptr<const Model> model_;  // with unpacked weights
    npu::Partition parts_;
    bool fast_ = false, prefill_ = true, decode_ = true;
    std::optional<npu::ContextFile> context_;
    npu::HtpDevice device_;
    npu::Ranges ranges_;
    npu::Recipe recipe_;
    std::mutex mutex_;
    std::map<int64_t, std::shared_ptr<const npu::CompiledModel>> compiled_;  // by n_ctx
};

}  // namespace tessera::engine
