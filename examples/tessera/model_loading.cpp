// Options that many commands share, each declared here once, and the loading that follows from them.
// default_model.cpp chooses the file when none is named.
#include "examples/tessera/model_loading.h"

#include <algorithm>
#include <optional>

#include "common/cpu.h"
#include "common/log.h"
#include "common/progress.h"
#include "common/strings.h"
#include "examples/tessera/blas_flag.h"
#include "examples/tessera/console.h"
#include "examples/tessera/default_model.h"
#include "examples/tessera/type_name.h"
#include "src/model/check_weights.h"

namespace tessera {

namespace {

std::unique_ptr<ThreadPool> create_pool(const ModelOptions& options) {
    return std::make_unique<ThreadPool>(options.n_threads > 0 ? static_cast<int>(options.n_threads)
                                                              : default_thread_count());
}

}  // namespace

void FileOptions::declare(Options& options, const char* positional) {
    options.positional(
        positional, path,
        "A GGUF file; of a split model the first part (default: TESSERA_MODEL or the demo model).");
    options.group("Model");
    options.repeated(
        "--override-kv", "KEY=TYPE:VALUE",
        [this](const std::string& text) -> Result<void> {
            TSR_TRY(gguf::Override override, gguf::parse_override(text));
            overrides.push_back(std::move(override));
            return {};
        },
        "Override a key of the file; TYPE is int, float, bool or str. +KEY=... adds a key that the file does "
        "not have. May be given several times.");
}

Result<gguf::File> FileOptions::open() const {
    TSR_TRY(const std::string chosen, model_path(path));
    return gguf::File::open(chosen, {.overrides = overrides});
}

void ModelOptions::declare(Options& options) {
    file.declare(options);
    options.flag("--precise", precise, "Use float activations: more exact, slower.");
    declare_blas(options, blas);
    options.flag("--check", check, "First look for infinite and NaN weights.");
    options.flag("--force", force, "Run even if the memory estimate (tessera plan) says it does not fit.");
    options.integer("-t,--threads", n_threads, 0, ThreadPool::kMaxThreads,
                    "Worker threads; 0: the physical cores that this process may use.");
}

std::string LoadedModel::description() const {
    return strf("%s %s, %s, %s%s, %d %s", printable(model->hparams().arch).c_str(),
                format_count(model->n_params()).c_str(), type_name(model->main_type()).c_str(),
                std::string(isa->name).c_str(), model->float_products() ? " with OpenBLAS" : "",
                pool->n_threads(), pool->n_threads() == 1 ? "thread" : "threads");
}

Result<void> check_file(const gguf::File& file, ThreadPool& pool, const kernels::KernelTable& kernels) {
    return check_weights(file, pool, kernels, console::byte_bar("checking"));
}

Result<ModelStart> start_model(const gguf::File& file, const ModelOptions& options) {
    ModelStart out{.pool = create_pool(options), .loaded = {}};
    TSR_TRY(out.loaded, engine::start_load(file, *out.pool));
    return out;
}

Result<LoadedModel> load_model(gguf::File file, const ModelOptions& options,
                               const engine::MemoryDemand& demand, const engine::NpuModel* npu,
                               ModelStart start) {
    const double begin = now_seconds();
    LoadedModel loaded;
    TSR_TRY(loaded.isa, kernels::choose_isa_from_environment());
    loaded.pool = start.pool ? std::move(start.pool) : create_pool(options);
    if (options.check) TSR_TRY_VOID(check_file(file, *loaded.pool, *loaded.isa->table));
    TSR_TRY(loaded.model, engine::load_weights(std::move(file), *loaded.pool, *loaded.isa->table,
                                               {.precise = options.precise,
                                                .blas = options.blas,
                                                .progress = console::byte_bar("loading"),
                                                .must_fit = options.force ? nullptr : &demand,
                                                .npu = npu},
                                               start.loaded.resident));
    loaded.load_seconds = now_seconds() - begin;
    log::info("loaded %s in %.0f ms: %s", printable(loaded.model->file().path(), 400).c_str(),
              loaded.load_seconds * 1e3, loaded.description().c_str());
    return loaded;
}

Result<engine::NpuOptions> npu_options(const NpuFlags& flags) {
    TSR_TRY(const engine::NpuPhase phase, engine::npu_phase_from_name(flags.phase));
    return engine::NpuOptions{.file = flags.file,
                              .device = flags.device,
                              .ranges = flags.ranges,
                              .recipe = flags.recipe,
                              .offload = flags.offload,
                              .strict = flags.strict,
                              .fast = flags.fast,
                              .phase = phase};
}

Result<std::shared_ptr<engine::NpuModel>> load_npu(const NpuFlags& flags, const FileOptions& file,
                                                   bool quiet) {
    if (!flags.is_on()) return std::shared_ptr<engine::NpuModel>();
    if (!quiet) NpuFlags::tell();
    TSR_TRY(const kernels::IsaInfo* isa, kernels::choose_isa_from_environment());
    TSR_TRY(gguf::File again, file.open());
    TSR_TRY(const engine::NpuOptions options, npu_options(flags));
    TSR_TRY(auto npu, engine::create_npu_model(std::move(again), *isa->table, options));
    if (quiet) return npu;
    console::note("npu: %s", npu->description().c_str());
    if (!npu->left_out().empty()) console::note("npu: on the CPU:\n%s", npu->left_out().c_str());
    return npu;
}

void SessionFlags::declare_ctx(Options& options) {
    options.integer("-c,--ctx", n_ctx, 0, int64_t{1} << 24,
                    "Context length in tokens; 0: as trained, but at most 4096.");
}

void SessionFlags::declare_batch(Options& options, const char* names) {
    options.integer(names, n_batch, 1, 4096,
                    "Tokens computed in one step of prefill; changes speed, never results.");
}

void SessionFlags::declare_kv(Options& options) {
    options.parsed(
        "--kv", "TYPE[,TYPE]",
        [this](const std::string& text) -> Result<void> {
            const std::vector<std::string_view> names = split(text, ',');
            if (names.size() > 2)
                return fail(ErrorCode::InvalidArgument,
                            "expected one type, or one for K and one for V, found '%s'",
                            printable(text).c_str());
            TSR_TRY(k_type, engine::kv_type_from_name(names.front()));
            TSR_TRY(v_type, engine::kv_type_from_name(names.back()));
            return {};
        },
        "Type of the KV cache: " + engine::kv_type_names() + "; two types are for K and V. (default: f16)");
}

std::string SessionFlags::kv_name() const {
    return type_name(k_type) + (k_type == v_type ? "" : "," + type_name(v_type));
}

engine::SessionOptions SessionFlags::session() const {
    return {.n_ctx = n_ctx, .n_batch = n_batch, .max_out = 1, .k_type = k_type, .v_type = v_type};
}

Result<void> eval_prompt(engine::Session& session, std::span<const int32_t> tokens, int64_t n_batch) {
    const auto n_part = static_cast<size_t>(n_batch);
    ProgressBar bar("prompt", tokens.size(), ProgressBar::Unit::Tokens,
                    tokens.size() > n_part && console::verbosity() != console::Verbosity::Quiet);
    for (size_t at = 0; at < tokens.size(); at += n_part) {
        bar.update(at);
        TSR_TRY_VOID(session.eval(tokens.subspan(at, std::min(n_part, tokens.size() - at))));
    }
    return {};
}

Result<std::vector<int32_t>> parse_ids(std::string_view text) {
    std::vector<int32_t> ids;
    constexpr std::string_view kSeparators = ", \t\r\n[]";
    for (size_t at = 0; (at = text.find_first_not_of(kSeparators, at)) != std::string_view::npos;) {
        const size_t end = std::min(text.find_first_of(kSeparators, at), text.size());
        const std::string_view part = text.substr(at, end - at);
        const std::optional<int64_t> id = parse_int(part);
        if (!id || *id < 0 || *id > INT32_MAX)
            return fail(ErrorCode::InvalidArgument,
                        "token ids: expected whole numbers of 0 or more, found '%s'",
                        printable(part).c_str());
        ids.push_back(static_cast<int32_t>(*id));
        at = end;
    }
    return ids;
}

std::string format_count(int64_t n) {
    const auto value = static_cast<double>(n);
    if (n >= 1'000'000'000) return strf("%.2fB", value / 1e9);
    if (n >= 1'000'000) return strf("%.1fM", value / 1e6);
    if (n >= 1'000) return strf("%.1fK", value / 1e3);
    return strf("%lld", static_cast<long long>(n));
}

}  // namespace tessera
