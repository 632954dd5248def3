#pragma once
// What it takes to get a model onto the NPU, measured in processes of their own: compiled before or when it
// is loaded.
#include <cstdint>
#include <string>

#include "common/cpu.h"
#include "examples/tessera/model_loading.h"

namespace tessera {

/// What is measured: a model, what the NPU does of it, and passes that are computed once it is there.
struct NpuTrial {
    ModelOptions model;
    NpuFlags npu;
    int64_t n_ctx = 0;  ///< 0: that of the compiled file, or what a session takes by itself
    int64_t n_prompt = 128, n_decode = 4;  ///< tokens of a prompt, and tokens after it one by one
};

/// Blocks from the C library's heap; zeros where it does not tell.
struct HeapUse {
    uint64_t used_bytes = 0, free_bytes = 0, n_free_blocks = 0;
};

/// Bytes and seconds, both of this machine.
struct NpuStart {
    double model_seconds = 0;    ///< until the model is loaded for the processor
    double npu_seconds = 0;      ///< from there until a session on the NPU is ready
    double npu_cpu_seconds = 0;  ///< of all threads during that time: the same on a busy machine
    ResidentSet before;          ///< in between
    ResidentSet most;  ///< the most of each while the NPU was got ready, looked at every millisecond
    ResidentSet after;
    uint64_t peak_bytes =
        0;  ///< the most of both together during that time; 0 where the system does not tell

    int64_t n_ctx = 0;
    int64_t arena_bytes = 0, cache_bytes = 0, constant_bytes = 0, vtcm_bytes = 0;  ///< of the device
    uint64_t host_cache_bytes = 0;     ///< taken of the processor's pages of keys and values after the passes
    int64_t arena_planned_bytes = 0;   ///< of the graphs that ran
    uint64_t arena_touched_bytes = 0;  ///< by them
    int64_t n_prompt = 0, n_decode = 0;  ///< tokens that were computed
    double prompt_seconds = 0, decode_seconds = 0;
    HeapUse heap_before, heap_after;  ///< of the tokens one by one
};

/// Loads the model and computes the passes. Errors: those of whoever does that.
Result<NpuStart> measure_npu_start(const NpuTrial& trial);

struct NpuCompilation {
    double seconds = 0;      ///< from opening the model until the file is written
    double cpu_seconds = 0;  ///< of all threads
    ResidentSet before, most;
    uint64_t peak_bytes = 0;
    uint64_t file_bytes = 0;
};

/// Compiles what trial.npu says into a file, with the rows and positions that are compiled at start.
Result<NpuCompilation> measure_npu_compilation(const NpuTrial& trial, const std::string& out);

}  // namespace tessera
