// Loads the parts of a model file so that cheap checks fail first: metadata, vocabulary, weights.
#include "src/engine/load.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <span>
#include <vector>

#include "common/cpu.h"
#include "common/log.h"
#include "ggml-like/blas/products.h"
#include "src/engine/npu_model.h"
#include "src/engine/plan.h"
#include "src/model/check_weights.h"
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

namespace {

/// The weights of a packed container in chunks for threads; empty for other files.
std::vector<std::span<const std::byte>> packed_parts(const gguf::File& file, size_t n_bytes) {
    std::vector<std::span<const std::byte>> parts;
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        if (tensor.layout != Layout::Packed) continue;
        for (size_t at = 0; at < tensor.data.size(); at += n_bytes)
            parts.push_back(tensor.data.subspan(at, std::min(n_bytes, tensor.data.size() - at)));
    }
    return parts;
}

}  // namespace

Result<gguf::File> open_file(const std::string& path, std::span<const std::string> overrides) {
    std::vector<gguf::Override> parsed;
    for (const std::string& text : overrides) {
        auto one = gguf::parse_override(text);
        if (!one) return fail_in("overrides", std::move(one.error()));
        parsed.push_back(std::move(*one));
    }
    return gguf::File::open(path, {.overrides = std::move(parsed)});
}

Result<LoadStart> start_load(const gguf::File& file, ThreadPool& pool) {
    for (int i = 0; file.is_packed() && i < file.n_files(); i++) file.mapping(i).want_huge_pages();
    auto parts = packed_parts(file, 1 << 20);
    if (pool.n_threads() == 1) parts.clear();
    const auto file_bytes = [&parts] { return parts.empty() ? 0 : resident_set().file_bytes; };
    const size_t before = file_bytes();
    std::optional<Result<std::shared_ptr<const text::Tokenizer>>> tokenizer;
    std::atomic<bool> loaded{false};
    pool.run(1 + static_cast<int64_t>(parts.size()), [&](int64_t unit, int) {
        if (unit == 0) {
            tokenizer = load_tokenizer(file);
            loaded.store(true, std::memory_order_relaxed);
        } else if (!loaded.load(std::memory_order_relaxed)) {
            file.touch(parts[static_cast<size_t>(unit - 1)]);
        }
    });
    if (!tokenizer) tokenizer = load_tokenizer(file);  // the pool was aborted
    if (!*tokenizer) return tl::unexpected(std::move(tokenizer->error()));
    const size_t after = file_bytes();
    return LoadStart{.tokenizer = std::move(**tokenizer), .resident = after > before ? after - before : 0};
}

void release_weights(const gguf::File& file, ThreadPool& pool) {
    // Each call causes a TLB shootdown on the other cores.
    const auto parts = packed_parts(file, 16 << 20);
    pool.run(static_cast<int64_t>(parts.size()),
             [&](int64_t i, int) { file.release(parts[static_cast<size_t>(i)]); });
}

Result<std::unique_ptr<Model>> bind_weights(gguf::File file, const kernels::KernelTable& kernels,
                                            const LoadOptions& options) {
    const auto unused = options.npu ? options.npu->unused_weights() : std::vector<bool>();
    TSR_TRY(auto model, Model::bind(std::move(file), kernels, !options.precise, unused));
    if (options.blas) {
        TSR_TRY(const cpu::FloatProducts products, blas::float_products());
        model->compute_with(products);
    }
    return model;
}

Result<std::shared_ptr<const Model>> load_weights(gguf::File file, ThreadPool& pool,
                                                  const kernels::KernelTable& kernels,
                                                  const LoadOptions& options, uint64_t resident) {
    TSR_TRY(auto bound, bind_weights(std::move(file), kernels, options));
    if (options.must_fit) {
        TSR_TRY(const MemoryPlan plan, plan_memory(*bound, *options.must_fit, pool.n_threads(), resident));
        TSR_TRY_VOID(check_fits(plan, available_memory_bytes()));
    }
    return Model::pack(std::move(bound), pool, options.progress);
}

Result<Loaded> load(const std::string& path, ThreadPool& pool, const LoadOptions& options) {
    Loaded out;
    TSR_TRY(const kernels::IsaInfo* isa, choose_kernels(options.isa));
    out.isa_name = isa->name;
    TSR_TRY(gguf::File file, open_file(path, options.overrides));
    if (options.check) TSR_TRY_VOID(check_weights(file, pool, *isa->table, {}));
    TSR_TRY(LoadStart start, start_load(file, pool));
    out.tokenizer = std::move(start.tokenizer);
    TSR_TRY(out.model, load_weights(std::move(file), pool, *isa->table, options, start.resident));
    for (const std::string& name : sample::apply_model_defaults(out.model->file(), out.sampling))
        log::info("the model file sets the default of %s", name.c_str());
    return out;
}

}  // namespace tessera::engine
