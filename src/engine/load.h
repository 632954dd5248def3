#pragma once
// Loads a model file: packed weights and tokenizer.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/threads.h"
#include "quants/dispatch.h"
#include "src/model/model.h"
#include "src/sample/params.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

struct MemoryDemand;  // plan.h
class NpuModel;       // npu_model.h

struct LoadOptions {
    std::string isa =
        "";  ///< name of the instruction set; empty: TESSERA_ISA, or the best that this CPU supports
    bool precise = false;   ///< compute products in float, with unpacked weights from the file
    bool blas = false;      ///< OpenBLAS computes float products (ggml-like/blas/products.h)
    ByteProgress progress;  ///< in bytes, while weights are packed
    /// Refuse to load, before weights are allocated, if this does not fit in memory; null: no check.
    const MemoryDemand* must_fit = nullptr;
    std::vector<std::string> overrides = {};  ///< "KEY=TYPE:VALUE": used instead of the file's values
    bool check = false;                       ///< fail if a weight is infinite or NaN
    /// The NPU of every session of the model: weights that only it uses are not packed and not read from the
    /// file. Null: none.
    const NpuModel* npu = nullptr;
};

struct Loaded {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::string_view isa_name;
    sample::Params sampling;  ///< with the defaults of the file
};

/// Resolves LoadOptions::isa.
Result<const kernels::IsaInfo*> choose_kernels(const std::string& isa);

/// Opens a model file with LoadOptions::overrides. Errors: those of gguf::parse_override() and File::open().
Result<gguf::File> open_file(const std::string& path, std::span<const std::string> overrides);

/// The tokenizer of a file. Errors name the file.
Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const gguf::File& file);

/// State of a load before the weights.
struct LoadStart {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    uint64_t resident = 0;  ///< approximate bytes of weights that were touched; for load_weights()
};
/// Runs load_tokenizer() on one thread of the pool, while the others touch the weights of a packed container,
/// so that the first pass has no page faults. A pool of one thread does not touch them.
Result<LoadStart> start_load(const gguf::File& file, ThreadPool& pool);

/// Releases the pages of a packed container with all threads, which is faster than the single-threaded
/// release at process exit. Later accesses fault them in again.
void release_weights(const gguf::File& file, ThreadPool& pool);

/// Model::bind() without the weights that only `options.npu` uses.
Result<std::unique_ptr<Model>> bind_weights(gguf::File file, const kernels::KernelTable& kernels,
                                            const LoadOptions& options);

/// Packs the weights of an open file, of which `resident` bytes are in this process, so that a plan counts
/// them once. Uses `kernels` and ignores `options.isa`.
Result<std::shared_ptr<const Model>> load_weights(gguf::File file, ThreadPool& pool,
                                                  const kernels::KernelTable& kernels,
                                                  const LoadOptions& options, uint64_t resident = 0);

/// Loads a file in one step. Errors name the file or the instruction set.
Result<Loaded> load(const std::string& path, ThreadPool& pool, const LoadOptions& options);

}  // namespace tessera::engine
