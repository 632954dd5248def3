#pragma once
// From the options that choose a model to the objects of a command: the file, the model, a session.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/threads.h"
#include "examples/tessera/npu_flags.h"
#include "examples/tessera/options.h"
#include "ggml-like/gguf/file.h"
#include "quants/dispatch.h"
#include "src/engine/load.h"
#include "src/engine/npu_model.h"
#include "src/engine/plan.h"
#include "src/engine/session.h"
#include "src/model/model.h"
#include "src/text/tokenizer.h"

namespace tessera {

/// The model file, and overrides of its keys.
struct FileOptions {
    std::string path;  ///< empty: the default model
    std::vector<gguf::Override> overrides;

    void declare(Options& options, const char* positional = "MODEL");
    /// Opens the file, or the default model, with a note. Errors name the paths that were tried.
    Result<gguf::File> open() const;
};

/// A model file and how it is computed.
struct ModelOptions {
    FileOptions file;
    int64_t n_threads = 0;  ///< 0 = default_thread_count()
    bool precise = false;
    bool blas = false;
    bool check = false;  ///< look for NaN and infinite weights
    bool force = false;  ///< load a model that does not fit the memory

    void declare(Options& options);
};

/// Members are destroyed in reverse order: the model before the pool.
struct LoadedModel {
    const kernels::IsaInfo* isa = nullptr;
    std::unique_ptr<ThreadPool> pool;
    std::shared_ptr<const Model> model;
    double load_seconds = 0;

    /// "llama 3.7M, q4_k, avx2, 2 threads".
    std::string description() const;
};

/// check_weights() on `pool`, with a progress bar on a terminal.
Result<void> check_file(const gguf::File& file, ThreadPool& pool, const kernels::KernelTable& kernels);

/// The threads of a model, and the parts of its file that are loaded before the weights.
struct ModelStart {
    std::unique_ptr<ThreadPool> pool;
    engine::LoadStart loaded;
};
Result<ModelStart> start_model(const gguf::File& file, const ModelOptions& options);

/// Loads and packs the weights, with a progress bar on a terminal; weights that only `npu` uses are left out.
/// A model that does not fit the memory together with `demand` is an error, which shows the plan, before
/// anything is allocated. `start`: of the same file and options, or empty.
Result<LoadedModel> load_model(gguf::File file, const ModelOptions& options,
                               const engine::MemoryDemand& demand, const engine::NpuModel* npu = nullptr,
                               ModelStart start = {});

/// The flags as engine options. Errors: InvalidArgument for an unknown phase.
Result<engine::NpuOptions> npu_options(const NpuFlags& flags);

/// The NPU part of the model, before it is loaded, or null without NPU flags. Prints the operations on the
/// NPU and those left on the CPU to stderr, unless `quiet`.
Result<std::shared_ptr<engine::NpuModel>> load_npu(const NpuFlags& flags, const FileOptions& file,
                                                   bool quiet = false);

using engine::load_tokenizer;

/// Options of the commands that compute.
struct SessionFlags {
    int64_t n_ctx = 0;
    int64_t n_batch = 512;
    Type k_type = Type::F16, v_type = Type::F16;

    void declare_ctx(Options& options);
    void declare_batch(Options& options, const char* names = "-b,--batch");
    void declare_kv(Options& options);
    std::string kv_name() const;  ///< "f16" or "f16,f32"
    engine::SessionOptions session() const;
};

/// Session::eval in batches, with a progress bar on a terminal. The batch size never changes results.
Result<void> eval_prompt(engine::Session& session, std::span<const int32_t> tokens, int64_t n_batch);

/// "1,5 300\n17" as token ids. The error names the first part that is not a number.
Result<std::vector<int32_t>> parse_ids(std::string_view text);

/// "1.24B", "3.7M".
std::string format_count(int64_t n);

}  // namespace tessera
