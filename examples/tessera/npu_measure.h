#pragma once
// Measures the cost of loading a model onto the NPU, compiled ahead of time or at load, in child processes.
#include <cstdint>
#include <string>

#include "common/cpu.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

/// The measured case: a model, its NPU options, and the passes computed after loading.
struct NpuTrial {
    ModelOptions model;
    NpuFlags npu;
    int64_t n_ctx = 0;                     ///< 0: that of the compiled file, or the default of a session
    int64_t n_prompt = 128, n_decode = 4;  ///< tokens of a prompt, and tokens after it one by one
};

/// The C library's heap; zeros where it cannot report it.
struct HeapUse {
    uint64_t used_bytes = 0, free_bytes = 0, n_free_blocks = 0;
};

/// Bytes and seconds measured on this machine.
struct NpuStart {
    double model_seconds = 0;    ///< until the model is loaded for the CPU
    double npu_seconds = 0;      ///< from then until a session on the NPU is ready
    double npu_cpu_seconds = 0;  ///< CPU time of all threads during npu_seconds
    ResidentSet before;          ///< in between
    ResidentSet most;            ///< maxima while the NPU was prepared, sampled every millisecond
    ResidentSet after;
    uint64_t peak_bytes = 0;  ///< maximum of the sum during that time; 0 where unknown

    int64_t n_ctx = 0;
    int64_t arena_bytes = 0, cache_bytes = 0, constant_bytes = 0, vtcm_bytes = 0;  ///< of the device
    uint64_t host_cache_bytes = 0;       ///< of the CPU's KV cache, after the passes
    int64_t arena_planned_bytes = 0;     ///< of the graphs that ran
    uint64_t arena_touched_bytes = 0;    ///< by them
    int64_t n_prompt = 0, n_decode = 0;  ///< tokens that were computed
    double prompt_seconds = 0, decode_seconds = 0;
    HeapUse heap_before, heap_after;  ///< before and after decoding
};

/// Loads the model and computes the passes. Errors: those of loading and computing.
Result<NpuStart> measure_npu_start(const NpuTrial& trial);

struct NpuCompilation {
    double seconds = 0;      ///< from opening the model until the file is written
    double cpu_seconds = 0;  ///< of all threads
    ResidentSet before, most;
    uint64_t peak_bytes = 0;
    uint64_t file_bytes = 0;
};

/// Compiles trial.npu into a file, with the batch sizes and context lengths of compiling at load.
Result<NpuCompilation> measure_npu_compilation(const NpuTrial& trial, const std::string& out);

}  // namespace tessera
