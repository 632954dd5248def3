#pragma once
// What running a model takes: the same sums as those of the buffers that load and engine then create, made
// before any of them is.
#include <string>

#include "src/engine/load.h"
#include "src/engine/scheduler.h"
#include "src/model/model.h"

namespace tessera::engine {

/// Bytes that the emulation of an NPU takes besides; all 0 where there is none.
struct NpuShare {
    uint64_t program = 0;  ///< resident already: the instructions, and the model's keys once more
    uint64_t mapped = 0;   ///< the compiled file, read where it lies, at most; the system may drop it
    uint64_t arena = 0, cache = 0, vtcm = 0;  ///< of the device
    uint64_t rows = 0;    ///< what crosses the border, and what the vector unit's threads have
    bool all_kv = false;  ///< no layer's keys and values are the processor's

    uint64_t total() const { return program + mapped + arena + cache + vtcm + rows; }
};

/// Bytes. "At full use": every position of every context is taken and a pass is as long as it may be.
struct MemoryPlan {
    uint64_t process = 0;      ///< resident already: the program, the vocabulary, what keys the file has
    uint64_t packed = 0;       ///< weights in the order of the kernels
    uint64_t mapped = 0;       ///< weights used where they lie in the file, at most; the system may drop them
    uint64_t cache = 0;        ///< keys and values, all contexts
    uint64_t activations = 0;  ///< of one pass
    uint64_t scratch = 0;      ///< of the threads
    uint64_t sampling = 0;     ///< candidates of each completion
    NpuShare npu;
    int64_t n_ctx = 0, n_slots = 0, n_pages = 0;
    uint64_t page = 0;  ///< one page of the cache

    /// The peak of the resident set at full use.
    uint64_t total() const {
        return process + packed + mapped + cache + activations + scratch + sampling + npu.total();
    }
    /// What it grows by from now on.
    uint64_t to_come() const { return total() - process - npu.program; }
};

/// Pages of the cache that an engine with these options has: kv_bytes of them, or a context for each running
/// completion, but then no more than what `room` bytes hold beside one context; 0 = no such limit. Errors:
/// options out of range.
Result<int64_t> plan_pages(const CachePlan& one, const EngineOptions& options, uint64_t room);

/// What is wanted of a model: n_slots sequences that share passes and buffers as `one` has them.
struct MemoryDemand {
    SessionOptions one;
    int64_t n_slots = 1;
    bool of_engine = false;  ///< its completions keep no more than a window where a layer sees no more
};

/// For a model that is bound or loaded, in this process as it is now; `resident` bytes of its weights are
/// part of that already (LoadStart). Errors: options out of range.
Result<MemoryPlan> plan_memory(const Model& model, const MemoryDemand& demand, int n_threads,
                               uint64_t resident = 0);

/// Adds to a plan of `demand` what an NPU takes for it, `program` bytes of which are resident since npu was
/// made. The processor's pages of keys and values stay untouched where the NPU has all of them. Errors: those
/// of NpuModel::needs(), several slots where the NPU attends.
Result<void> add_npu(const Model& model, const MemoryDemand& demand, const NpuModel& npu, uint64_t program,
                     int n_threads, MemoryPlan& plan);

/// plan_memory() for a file, which is opened as load() does and let go. Errors name the file, or what load()
/// says.
Result<MemoryPlan> plan_file(const std::string& path, const LoadOptions& options, const MemoryDemand& demand,
                             int n_threads);

/// An error that shows the plan unless what is to come fits `available` bytes (0: unknown, which fits).
Result<void> check_fits(const MemoryPlan& plan, uint64_t available);

/// The rows of the plan for people, a line each.
std::string to_text(const MemoryPlan& plan);

}  // namespace tessera::engine
