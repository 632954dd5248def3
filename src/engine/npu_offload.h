#pragma once
// A model parts of which an emulated device computes: compiled before, in a file, or from its ranges and a
// recipe when it is first needed. Shared by the sessions and engines that compute it.
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "ggml-like/gguf/file.h"
#include "src/engine/npu_phase.h"
#include "src/model/model.h"
#include "src/npu/compile_model.h"
#include "src/npu/context_file.h"
#include "src/npu/device_run.h"
#include "src/npu/npu_backend.h"

namespace tessera::engine {

struct NpuOptions {
    std::string file;  ///< that `tessera npu compile` wrote; empty: the model is compiled by the fields below

    std::string device;            ///< a name (npu::shipped_devices), or a file
    std::string ranges;            ///< the file that `tessera npu calibrate` wrote for this model
    std::string recipe = "w4a16";  ///< a name (npu::shipped_recipes), or a file
    std::string offload;           ///< as npu::Selection::parse; empty: all that the device can compute

    bool strict = false;  ///< refuse where something that was selected stays on the processor
    bool fast = false;    ///< without copies through VTCM: the same bits sooner
    /// Whose tokens; where keys and values are the device's it has to have all of a text.
    NpuPhase phase = NpuPhase::Both;
};

class NpuModel;

/// Bytes that a session or an engine takes of a model that was compiled before, beside what the NpuModel has.
struct NpuNeeds {
    npu::DeviceRun::Needs device;
    uint64_t results = 0;  ///< floats that come from the device
    uint64_t mapped = 0;   ///< the compiled file, at most; the system may drop what it has read of it
    bool all_kv = false;   ///< no layer's keys and values are the processor's
};

/// What computes the passes of one session or engine. Outlived by its model and the processor's backend.
class NpuSession {
  public:
    npu::NpuBackend& backend() { return *backend_; }
    /// Whether keys and values are the device's: of one sequence, and in no page of the processor's.
    bool owns_kv_cache() const { return owns_kv_cache_; }
    /// Whether tokens of that phase go through backend(), or through the processor's.
    bool computes(Phase phase) const { return phase == Phase::Prefill ? prefill_ : decode_; }
    /// Whether it makes a difference; then no pass may have tokens of both phases.
    bool phase_split() const { return prefill_ != decode_; }
    /// What runs, and where it runs; valid as long as this.
    const npu::DeviceModel& compiled() const { return *compiled_; }
    const npu::DeviceRun& device() const { return *runner_; }

  private:
    friend class NpuModel;
    NpuSession() = default;

    std::shared_ptr<const NpuModel> model_;
    std::shared_ptr<const npu::CompiledModel> in_place_;  // null where it comes from a file
    const npu::DeviceModel* compiled_ = nullptr;
    record::Program program_;
    std::unique_ptr<npu::DeviceRun> runner_;
    std::unique_ptr<npu::NpuBackend> backend_;
    bool owns_kv_cache_ = false, prefill_ = true, decode_ = true;
};

class NpuModel : public std::enable_shared_from_this<NpuModel> {
  public:
    /// `file` is that of the model which the sessions compute, opened once more: weights that are compiled
    /// are read from there. Errors name the file or option at fault: ranges or a compiled file of another
    /// model, layers that it has not, a packed container, nothing that could be offloaded, with `strict` what
    /// stays on the processor, and one phase alone where the device attends.
    static Result<std::shared_ptr<NpuModel>> create(gguf::File file, const kernels::KernelTable& kernels,
                                                    const NpuOptions& options);

    /// For passes of `model` of up to max_tok tokens, of which max_out are wanted, in contexts of n_ctx.
    /// Compiles where no one has asked for such a context before. Any thread. Errors: an activation without a
    /// range or that cannot be said in the device's numbers, what does not fit the device, a context that is
    /// longer than the compiled one, no memory.
    Result<std::unique_ptr<NpuSession>> start(const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                              int64_t max_tok, int64_t max_out);

    /// What start() would compile for contexts of n_ctx, as `tessera npu compile` does: rows of 128 and of
    /// one, positions up to the context and, where that is long, up to 256. Any thread; the pool's threads
    /// share the work. Errors: those of start(), InvalidArgument of a model that comes from a file.
    Result<std::shared_ptr<const npu::CompiledModel>> compile(int64_t n_ctx, ThreadPool& pool);

    /// What start() takes, with a pool of so many threads. Errors: those of start(), InvalidArgument of a
    /// model that is not compiled yet: how large it gets is known when it is.
    Result<NpuNeeds> needs(const Model& model, int n_threads, int64_t n_ctx, int64_t max_tok,
                           int64_t max_out) const;

    /// Which of weights_to_pack() the processor never multiplies with: where the device computes both phases,
    /// those of its segments alone. Empty: there are none.
    std::vector<bool> unused_weights() const;

    const Model& model() const { return *model_; }
    const npu::HtpDevice& device() const { return device_; }
    /// Where each operation of record_all_rows() runs.
    const npu::Partition& parts() const { return parts_; }
    bool owns_kv_cache() const { return parts_.attends(); }
    /// "41 of 44 operations on x-elite, in 2 segments; 8.00 KiB a token cross the border", and behind it what
    /// became of a phase that is not Both. What is compiled in place may take several sessions, and then has
    /// more segments, by the context: the log says so.
    const std::string& description() const { return description_; }
    /// A line for each operation that was selected and stays on the processor; empty where none does.
    const std::string& left_out() const { return left_out_; }

  private:
    NpuModel() = default;
    Result<void> read_context(const std::string& path, uint64_t digest);
    Result<void> prepare(const NpuOptions& options, uint64_t digest);
    Result<npu::CompiledModel> compile_for(int64_t n_ctx, ThreadPool& pool) const;
    Result<void> check_context(const Model& model, int64_t n_ctx) const;
    npu::DeviceRun::Copies copies() const {
        return fast_ ? npu::DeviceRun::Copies::LeftOut : npu::DeviceRun::Copies::Made;
    }
    Result<void> choose_phases(const record::Program& program, NpuPhase wanted);

    std::shared_ptr<const Model> model_;  // with rows as in the file
    npu::Partition parts_;
    bool fast_ = false, prefill_ = true, decode_ = true;
    std::string description_, left_out_;
    std::optional<npu::ContextFile> context_;
    npu::HtpDevice device_;
    npu::Ranges ranges_;
    npu::Recipe recipe_;
    std::mutex mutex_;
    std::map<int64_t, std::shared_ptr<const npu::CompiledModel>> compiled_;  // by context
};

}  // namespace tessera::engine
