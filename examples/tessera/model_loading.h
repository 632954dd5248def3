#pragma once
// From the options that say which model to what a command works with: the file, the model, a session.
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

/// Which file, and what of it is read differently.
struct FileOptions {
    std::string path;  ///< empty: the default model
    std::vector<gguf::Override> overrides;

    void declare(Options& options, const char* positional = "MODEL");
    /// Opens the file, or the default model, of which a note tells. Errors name the paths that were tried.
    Result<gguf::File> open() const;
};

/// A file together with how it is computed.
struct ModelOptions {
    FileOptions file;
    int64_t n_threads = 0;  ///< 0 = default_thread_count()
    bool precise = false;
    bool check = false;  ///< weights for NaN and infinite ones
    bool force = false;  ///< load what does not fit the memory

    void declare(Options& options);
};

/// Members are destroyed in reverse: the model before the pool.
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

/// The threads of a model, and what they loaded of its file before its weights.
struct ModelStart {
    std::unique_ptr<ThreadPool> pool;
    engine::LoadStart loaded;
};
Result<ModelStart> start_model(const gguf::File& file, const ModelOptions& options);

/// Packs, with a progress bar on a terminal, but for what `npu` leaves the processor no use for. The error of
/// a model that, with what `demand` takes, does not fit the memory shows the plan, and comes before anything
/// is taken. `start`: of the same file and options, or nothing.
Result<LoadedModel> load_model(gguf::File file, const ModelOptions& options,
                               const engine::MemoryDemand& demand, const engine::NpuModel* npu = nullptr,
                               ModelStart start = {});

/// The flags for the engine. InvalidArgument for a phase that there is not.
Result<engine::NpuOptions> npu_options(const NpuFlags& flags);

/// What the NPU does of that model, before it is loaded, or null where it was not asked for. Tells on stderr
/// what it does and what it does not, unless `quiet`.
Result<std::shared_ptr<engine::NpuModel>> load_npu(const NpuFlags& flags, const FileOptions& file,
                                                   bool quiet = false);

using engine::load_tokenizer;

/// Options of the commands that compute.
struct SessionFlags {
    int64_t n_ctx = 0;
    int64_t n_batch = 512;
    Type k_type = Type::F16, v_type = Type::F16;

    void declare_ctx(Options& options);
    void declare_batch(Options& options);
    void declare_kv(Options& options);
    std::string kv_name() const;  ///< "f16" or "f16,f32"
    engine::SessionOptions session() const;
};

/// Session::eval in pieces of a batch, with a progress bar on a terminal; never changes results.
Result<void> eval_prompt(engine::Session& session, std::span<const int32_t> tokens, int64_t n_batch);

/// "1,5 300\n17" as token ids. The error names the part that is no number.
Result<std::vector<int32_t>> parse_ids(std::string_view text);

/// "1.24B", "3.7M".
std::string format_count(int64_t n);

}  // namespace tessera
