// The parts of a model file in the order in which they may fail cheaply: keys, vocabulary, weights.
#include "src/engine/load.h"

#include "common/cpu.h"
#include "common/log.h"
#include "src/engine/npu_offload.h"
#include "src/engine/plan.h"
#include "src/sample/model_defaults.h"

namespace tessera::engine {

Result<const kernels::IsaInfo*> choose_kernels(const std::string& isa) {
    return isa.empty() ? kernels::choose_isa_from_environment() : kernels::choose_isa(isa);
}

Result<std::shared_ptr<const text::Tokenizer>> load_tokenizer(const gguf::File& file) {
    auto tokenizer = text::Tokenizer::load(file);
    if (tokenizer || tokenizer.error().message.starts_with(file.path())) return tokenizer;
    return fail_in(file.path(), std::move(tokenizer.error()));
}

Result<std::unique_ptr<Model>> bind_weights(gguf::File file, const kernels::KernelTable& kernels,
                                            const LoadOptions& options) {
    const auto unused = options.npu ? options.npu->unused_weights() : std::vector<bool>();
    return Model::bind(std::move(file), kernels, !options.precise, unused);
}

Result<std::shared_ptr<const Model>> load_weights(gguf::File file, ThreadPool& pool,
                                                  const kernels::KernelTable& kernels,
                                                  const LoadOptions& options) {
    TSR_TRY(auto bound, bind_weights(std::move(file), kernels, options));
    if (options.must_fit) {
        TSR_TRY(const MemoryPlan plan, plan_memory(*bound, *options.must_fit, pool.n_threads()));
        TSR_TRY_VOID(check_fits(plan, available_memory_bytes()));
    }
    return Model::pack(std::move(bound), pool, options.progress);
}

Result<Loaded> load(const std::string& path, ThreadPool& pool, const LoadOptions& options) {
    Loaded out;
    TSR_TRY(const kernels::IsaInfo* isa, choose_kernels(options.isa));
    out.isa_name = isa->name;
    TSR_TRY(gguf::File file, gguf::File::open(path));
    TSR_TRY(out.tokenizer, load_tokenizer(file));
    TSR_TRY(out.model, load_weights(std::move(file), pool, *isa->table, options));
    for (const std::string& name : sample::apply_model_defaults(out.model->file(), out.sampling))
        log::info("the model file sets the default of %s", name.c_str());
    return out;
}

}  // namespace tessera::engine
