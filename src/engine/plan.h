#pragma once
// Memory that running a model needs: the same sums as those of the buffers that loading and the engine
// create, computed before any of them is allocated.
#include <string>

#include "src/engine/load.h"
#include "src/engine/scheduler.h"
#include "src/model/model.h"

namespace tessera::engine {

/// Additional bytes for an emulated NPU; all 0 without one.
struct NpuShare {
    uint64_t program = 0;  ///< already resident: instructions, and a second copy of the model's metadata
    uint64_t mapped = 0;   ///< the compiled file, mapped; upper bound, reclaimable by the system
    uint64_t arena = 0, cache = 0, vtcm = 0;  ///< memory of the device
    uint64_t rows = 0;    ///< activations between CPU and device, and scratch of the vector unit's threads
    bool all_kv = false;  ///< the device has the KV cache of all layers

    uint64_t total() const { return program + mapped + arena + cache + vtcm + rows; }
};

/// In bytes. "At full use": every position of every context is in use and passes have the maximum length.
struct MemoryPlan {
    uint64_t process = 0;      ///< already resident: the program, the vocabulary, the file's metadata
    uint64_t packed = 0;       ///< packed weights
    uint64_t mapped = 0;       ///< weights used in the file's mapping; upper bound, reclaimable by the system
    uint64_t cache = 0;        ///< KV cache of all contexts
    uint64_t states = 0;       ///< state of recurrent layers, with checkpoints
    uint64_t activations = 0;  ///< activations of one pass
    uint64_t scratch = 0;      ///< scratch of the threads
    uint64_t sampling = 0;     ///< sampler candidates of all completions
    NpuShare npu;
    int64_t n_ctx = 0, n_slots = 0, n_pages = 0;
    uint64_t page = 0;  ///< one page of the KV cache

    /// Peak RSS at full use.
    uint64_t total() const {
        return process + packed + mapped + cache + states + activations + scratch + sampling + npu.total();
    }
    /// Growth from now to full use.
    uint64_t growth_bytes() const { return total() - process - npu.program; }
};

/// KV cache pages and slots of recurrent state of an engine.
struct CacheSize {
    int64_t n_pages = 0, n_slots = 0;
};

/// The size for these options: what kv_bytes holds, or else one context per running completion, limited to
/// what fits in `room` bytes (0: unlimited) but at least one context. Pages and slots share the bytes in the
/// proportion of one context. Errors: options out of range.
Result<CacheSize> plan_cache_size(const CachePlan& one, const EngineOptions& options, uint64_t room);

/// Intended use of a model: n_slots sequences that share passes and buffers, each with the options in `one`.
struct MemoryDemand {
    SessionOptions one;
    int64_t n_slots = 1;
    bool of_engine = false;  ///< windowed layers keep only the window, as in an engine
};

/// Plan for a bound or loaded model in the current process, of which `resident` bytes are weights of the
/// model (LoadStart). Errors: options out of range.
Result<MemoryPlan> plan_memory(const Model& model, const MemoryDemand& demand, int n_threads,
                               uint64_t resident = 0);

/// Adds the memory of an NPU to a plan of `demand`; `program` bytes have been resident since `npu` was
/// created. If the NPU has the KV cache of all layers, the CPU's pages stay untouched. Errors: those of
/// NpuModel::needs(); several slots if the NPU has the KV cache.
Result<void> add_npu(const Model& model, const MemoryDemand& demand, const NpuModel& npu, uint64_t program,
                     int n_threads, MemoryPlan& plan);

/// plan_memory() for a file, which is opened as in load() and closed again. Errors: those of load().
Result<MemoryPlan> plan_file(const std::string& path, const LoadOptions& options, const MemoryDemand& demand,
                             int n_threads);

/// Error with the plan, unless its growth fits in `available` bytes (0: unknown, fits).
Result<void> check_fits(const MemoryPlan& plan, uint64_t available);

/// The plan as a table for people, one line per row.
std::string to_text(const MemoryPlan& plan);

}  // namespace tessera::engine
