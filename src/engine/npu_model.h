#pragma once
// The engine's side of an NPU: which tokens it computes and what it takes of the memory. npu_offload.cpp
// implements it; a build without an NPU (TSR_NPU=OFF) has npu_absent.cpp in its place.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ggml-like/backend.h"
#include "ggml-like/cpu/backend.h"
#include "ggml-like/gguf/file.h"
#include "src/engine/npu_phase.h"
#include "src/model/model.h"

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

/// Bytes that a session or an engine takes of a model that was compiled before, beside what the NpuModel has.
struct NpuNeeds {
    uint64_t arena = 0;  ///< activations of the device
    uint64_t cache = 0;  ///< keys and values of the device
    uint64_t vtcm = 0;
    uint64_t rows = 0;    ///< what crosses between the processor and the device, and the threads' scratch
    uint64_t mapped = 0;  ///< the compiled file, at most; the system may drop what it has read of it
    bool all_kv = false;  ///< no layer's keys and values are the processor's
};

/// What computes the passes of one session or engine. Outlived by its model and the processor's backend.
class NpuSession {
  public:
    virtual ~NpuSession() = default;
    virtual Backend& backend() = 0;
    /// Whether keys and values are the device's: of one sequence, and in no page of the processor's.
    bool owns_kv_cache() const { return owns_kv_cache_; }
    /// Whether tokens of that phase go through backend(), or through the processor's.
    bool computes(Phase phase) const { return phase == Phase::Prefill ? prefill_ : decode_; }
    /// Whether it makes a difference; then no pass may have tokens of both phases.
    bool phase_split() const { return prefill_ != decode_; }

  protected:
    bool owns_kv_cache_ = false, prefill_ = true, decode_ = true;
};

/// A model parts of which an NPU computes. Shared by the sessions and engines that compute it.
class NpuModel {
  public:
    virtual ~NpuModel() = default;
    /// For passes of `model` of up to max_tok tokens, of which max_out are wanted, in contexts of n_ctx.
    /// Compiles where no one has asked for such a context before. Any thread. Errors: an activation without a
    /// range or that cannot be said in the device's numbers, what does not fit the device, a context that is
    /// longer than the compiled one, no memory.
    virtual Result<std::unique_ptr<NpuSession>> start(const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                                      int64_t max_tok, int64_t max_out) = 0;
    /// What start() takes, with a pool of so many threads. Errors: those of start(), InvalidArgument of a
    /// model that is not compiled yet: how large it gets is known when it is.
    virtual Result<NpuNeeds> needs(const Model& model, int n_threads, int64_t n_ctx, int64_t max_tok,
                                   int64_t max_out) const = 0;
    /// Which of weights_to_pack() the processor never multiplies with: where the device computes both phases,
    /// those of its segments alone. Empty: there are none.
    virtual std::vector<bool> unused_weights() const = 0;
    virtual bool owns_kv_cache() const = 0;
    /// "41 of 44 operations on x-elite, in 2 segments; 8.00 KiB a token cross the border", and behind it what
    /// became of a phase that is not Both. What is compiled in place may take several sessions, and then has
    /// more segments, by the context: the log says so.
    const std::string& description() const { return description_; }
    /// A line for each operation that was selected and stays on the processor; empty where none does.
    const std::string& left_out() const { return left_out_; }

  protected:
    std::string description_, left_out_;
};

/// `file` is that of the model which the sessions compute, opened once more: weights that are compiled are
/// read from there. Errors name the file or option at fault: ranges or a compiled file of another model,
/// layers that it has not, a packed container, nothing that could be offloaded, with `strict` what stays on
/// the processor, one phase alone where the device attends; Unsupported of a build without an NPU.
Result<std::shared_ptr<NpuModel>> create_npu_model(gguf::File file, const kernels::KernelTable& kernels,
                                                   const NpuOptions& options);

}  // namespace tessera::engine
