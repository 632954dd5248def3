#pragma once
// The engine's interface to an NPU: the tokens that it computes and the memory that it needs. npu_offload.cpp
// implements it; builds without NPU (TSR_NPU=OFF) have npu_absent.cpp instead.
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
    std::string file;  ///< written by `tessera npu compile`; empty: compile the model by the fields below

    std::string device;            ///< a name of npu::shipped_devices, or a file
    std::string ranges;            ///< file written by `tessera npu calibrate` for this model
    std::string recipe = "w4a16";  ///< a name of npu::shipped_recipes, or a file
    std::string offload;           ///< see npu::Selection::parse; empty: everything the device can compute

    bool strict = false;  ///< error if a selected operation stays on the CPU
    bool fast = false;    ///< skip copies through VTCM: same bits, faster
    /// Phases that the device computes; must be Both or Auto if the device has the KV cache.
    NpuPhase phase = NpuPhase::Both;
};

/// Bytes that a session or engine needs for a compiled model, in addition to the NpuModel.
struct NpuNeeds {
    uint64_t arena = 0;  ///< activations on the device
    uint64_t cache = 0;  ///< KV cache on the device
    uint64_t vtcm = 0;
    uint64_t rows = 0;    ///< activations between CPU and device, and the threads' scratch
    uint64_t mapped = 0;  ///< the compiled file; upper bound, reclaimable by the system
    bool all_kv = false;  ///< the device has the KV cache of all layers
};

/// Computes the passes of one session or engine. Its model and CPU backend must outlive it.
class NpuSession {
  public:
    virtual ~NpuSession() = default;
    virtual Backend& backend() = 0;
    /// Whether the device has the KV cache, which then is that of one sequence and not in pages of the CPU.
    bool owns_kv_cache() const { return owns_kv_cache_; }
    /// Whether tokens of a phase are computed by backend() rather than the CPU backend.
    bool computes(Phase phase) const { return phase == Phase::Prefill ? prefill_ : decode_; }
    /// Whether phases are computed differently; then no pass may have tokens of both.
    bool phase_split() const { return prefill_ != decode_; }

  protected:
    bool owns_kv_cache_ = false, prefill_ = true, decode_ = true;
};

/// A model of which an NPU computes parts. Shared by its sessions and engines.
class NpuModel {
  public:
    virtual ~NpuModel() = default;
    /// For passes of up to max_tok tokens of `model` with up to max_out output rows, in contexts of n_ctx.
    /// Compiles if this context size is needed for the first time. Any thread. Errors: an activation without
    /// a range or not representable on the device, operations that do not fit the device, a context longer
    /// than the compiled one, out of memory.
    virtual Result<std::unique_ptr<NpuSession>> start(const Model& model, CpuBackend& cpu, int64_t n_ctx,
                                                      int64_t max_tok, int64_t max_out) = 0;
    /// Memory that start() needs with a pool of n_threads. Errors: those of start(); InvalidArgument if the
    /// model is not compiled ahead of time, since its size is known only afterwards.
    virtual Result<NpuNeeds> needs(const Model& model, int n_threads, int64_t n_ctx, int64_t max_tok,
                                   int64_t max_out) const = 0;
    /// Flags for weights_to_pack(): those that the CPU never uses, because the device computes both phases of
    /// their operations. Empty: none.
    virtual std::vector<bool> unused_weights() const = 0;
    virtual bool owns_kv_cache() const = 0;
    /// "41 of 44 operations on x-elite, in 2 segments; 8.00 KiB per token between CPU and NPU", followed by
    /// the choice of phases unless it is Both. A model that is compiled when first needed may get several
    /// sessions and then more segments, depending on the context size; the log reports that.
    const std::string& description() const { return description_; }
    /// One line per selected operation that stays on the CPU; empty if there is none.
    const std::string& left_out() const { return left_out_; }

  protected:
    std::string description_, left_out_;
};

/// `file` is the file of the sessions' model, opened a second time; weights to be compiled are read from it.
/// Errors name the file or option at fault: ranges or a compiled file of another model, layers that do not
/// exist, a packed container, nothing that can be offloaded, operations that stay on the CPU with `strict`, a
/// single phase although the device has the KV cache; Unsupported in builds without NPU.
Result<std::shared_ptr<NpuModel>> create_npu_model(gguf::File file, const kernels::KernelTable& kernels,
                                                   const NpuOptions& options);

}  // namespace tessera::engine
