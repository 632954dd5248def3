#pragma once
// A model file, ready to compute: its weights in the order of the kernels, and its tokenizer.
#include <memory>
#include <string>

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
    std::string isa = "";   ///< instruction set by name; empty: TESSERA_ISA, or the best of this processor
    bool precise = false;   ///< float products straight from the file
    ByteProgress progress;  ///< bytes, while weights are packed
    /// Refuse, before the weights take any, where the memory has no room for this; null: do not ask.
    const MemoryDemand* must_fit = nullptr;
    /// What every session of the model will have: weights that it alone multiplies with are not packed, and
    /// stay unread in the file. Null: none.
    const NpuModel* npu = nullptr;
};

struct Loaded {
    std::shared_ptr<const Model> model;
    std::shared_ptr<const text::Tokenizer> tokenizer;
    std::string_view isa_name;
    sample::Params sampling;  ///< with the defaults that the file sets
};

/// LoadOptions::isa as it is meant there.
Result<const kernels::IsaInfo*> choose_kernels(const std::string& isa);

/// The tokenizer of a file. Every error names the file.
Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const gguf::File& file);

/// What of a file comes before its weights.
struct LoadStart {
    std::shared_ptr<const text::Tokenizer> tokenizer;
    uint64_t resident = 0;  ///< bytes of the weights that were touched, about: for load_weights()
};
/// load_tokenizer() on one of the pool's threads, while the others touch the weights of a packed container,
/// whose page faults the first pass would have. With one thread these stay untouched.
Result<LoadStart> start_load(const gguf::File& file, ThreadPool& pool);

/// Lets go of the pages of a packed container with all threads, before the end of a program does so with one.
/// They are read again when they are touched.
void release_weights(const gguf::File& file, ThreadPool& pool);

/// Model::bind(), without the weights that `options.npu` leaves the processor no use for.
Result<std::unique_ptr<Model>> bind_weights(gguf::File file, const kernels::KernelTable& kernels,
                                            const LoadOptions& options);

/// Packs the weights of a file that is open already, and of which `resident` bytes are in this process: a
/// plan counts them once. Of the options `isa` is not asked, but `kernels` taken.
Result<std::shared_ptr<const Model>> load_weights(gguf::File file, ThreadPool& pool,
                                                  const kernels::KernelTable& kernels,
                                                  const LoadOptions& options, uint64_t resident = 0);

/// Errors name the file, or the instruction set.
Result<Loaded> load(const std::string& path, ThreadPool& pool, const LoadOptions& options);

}  // namespace tessera::engine
