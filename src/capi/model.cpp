// The C interface: models, text and tokens. Each function checks its pointers, then calls the engine; guard.h
// turns the result into a status.
#include <atomic>
#include <string>
#include <vector>

#include "common/cpu.h"
#include "src/capi/guard.h"
#include "src/capi/handles.h"
#include "src/engine/infill.h"
#include "src/engine/npu_model.h"
#include "src/engine/plan.h"

namespace tessera::capi {

Result<std::unique_ptr<ThreadPool>> create_pool(int32_t n_threads) {
    TSR_TRY_VOID(engine::check_range("n_threads", n_threads, 0, ThreadPool::kMaxThreads));
    return std::make_unique<ThreadPool>(n_threads > 0 ? n_threads : default_thread_count());
}

Result<Type> cache_type(const char* name, const char* option) {
    if (!name) return Type::F16;
    auto type = engine::kv_type_from_name(name);
    if (!type) return fail_in(option, type.error());
    return *type;
}

Result<sample::Params> sampling_params(const sample::Params& defaults, const tsr_param* params, size_t n) {
    TSR_TRY(const auto given, need_span(params, n, "sampling"));
    sample::Params out = defaults;
    for (const tsr_param& param : given) {
        TSR_TRY_VOID(need(param.name, "sampling: name"));
        TSR_TRY_VOID(need(param.value, param.name));
        TSR_TRY_VOID(out.set(param.name, param.value));
    }
    return out;
}

namespace {

constexpr uint32_t kEncodeFlags = TSR_ADD_SPECIAL | TSR_PARSE_SPECIAL;

Result<void> check_flags(uint32_t flags, uint32_t known) {
    if ((flags & ~known) == 0) return {};
    return fail(ErrorCode::InvalidArgument, "flags: expected a combination of 0x%x, found 0x%x", known,
                flags);
}

Result<engine::MemoryDemand> demand_of(const tsr_plan_options& given) {
    engine::MemoryDemand demand{
        .one = {}, .n_slots = given.n_slots == 0 ? 1 : given.n_slots, .of_engine = given.session == 0};
    demand.one.n_ctx = given.n_ctx;
    if (given.n_batch != 0) demand.one.n_batch = given.n_batch;
    TSR_TRY_VOID(engine::check_range("n_batch", demand.one.n_batch, 1, 4096));
    TSR_TRY(demand.one.k_type, cache_type(given.k_type, "k_type"));
    TSR_TRY(demand.one.v_type, cache_type(given.v_type, "v_type"));
    return demand;
}

Result<std::shared_ptr<engine::NpuModel>> load_npu(const char* path, const kernels::KernelTable& kernels,
                                                   const tsr_npu_options& given,
                                                   const std::vector<std::string>& overrides) {
    engine::NpuOptions options;
    if (given.file) {
        options.file = given.file;
    } else {
        TSR_TRY_VOID(need(given.device, "npu: device"));
        TSR_TRY_VOID(need(given.ranges, "npu: ranges"));
        options.device = given.device;
        options.ranges = given.ranges;
    }
    if (given.recipe) options.recipe = given.recipe;
    if (given.offload) options.offload = given.offload;
    options.strict = given.strict != 0;
    options.fast = given.fast != 0;
    if (given.phase) {
        TSR_TRY(options.phase, engine::npu_phase_from_name(given.phase));
    }
    TSR_TRY(gguf::File file, engine::open_file(path, overrides));
    return engine::create_npu_model(std::move(file), kernels, options);
}

Result<std::vector<std::string>> overrides_of(const tsr_model_options& options) {
    std::vector<std::string> out;
    TSR_TRY(const auto given, need_span(options.overrides, options.n_overrides, "overrides"));
    for (const char* text : given) {
        TSR_TRY_VOID(need(text, "overrides"));
        out.emplace_back(text);
    }
    return out;
}

Result<void> load(const char* path, const tsr_model_options& options, tsr_model& out) {
    engine::MemoryDemand demand;
    if (options.must_fit) {
        TSR_TRY(const tsr_plan_options given, read_options(options.must_fit, "must_fit"));
        TSR_TRY(demand, demand_of(given));
    }
    TSR_TRY(const auto pool, create_pool(options.n_threads));
    std::atomic<bool> abort{false};
    pool->set_abort_flag(&abort);
    const auto progress = [&](uint64_t done, uint64_t total) {
        if (options.progress && options.progress(options.user, done, total) != 0) abort.store(true);
    };
    const std::string isa_name = options.isa ? options.isa : "";
    TSR_TRY(auto overrides, overrides_of(options));
    if (options.npu) {
        TSR_TRY(const tsr_npu_options given, read_options(options.npu, "npu"));
        TSR_TRY(const kernels::IsaInfo* isa, engine::choose_kernels(isa_name));
        TSR_TRY(out.npu, load_npu(path, *isa->table, given, overrides));
    }
    TSR_TRY(static_cast<engine::Loaded&>(out), engine::load(path, *pool,
                                                            {.isa = isa_name,
                                                             .precise = options.precise != 0,
                                                             .blas = options.blas != 0,
                                                             .progress = progress,
                                                             .must_fit = options.must_fit ? &demand : nullptr,
                                                             .overrides = std::move(overrides),
                                                             .check = options.check != 0,
                                                             .npu = out.npu.get()}));
    if (abort.load()) return fail(ErrorCode::Cancelled, "'%s': loading was cancelled", path);
    out.constraints = std::make_shared<engine::Constraints>(out.tokenizer);
    return {};
}

tsr_model_info info_of(const tsr_model& model) {
    const Hparams& h = model.model->hparams();
    const text::SpecialIds& special = model.tokenizer->vocab().special();
    tsr_model_info out{};
    out.architecture = model.model->arch().name.data();
    out.type = type_info(model.model->main_type()).name.data();
    out.isa = model.isa_name.data();
    out.n_params = model.model->n_params();
    out.n_ctx_train = h.n_ctx_train;
    out.n_embd = h.n_embd;
    out.n_layer = h.n_layer;
    out.n_head = h.largest(&LayerSpec::n_head);
    out.n_head_kv = h.largest(&LayerSpec::n_head_kv);
    out.n_vocab = static_cast<int32_t>(h.n_vocab);
    out.bos = special.bos;
    out.eos = special.eos;
    out.n_bytes = static_cast<int64_t>(model.model->file().total_bytes());
    return out;
}

Result<void> write_ids(std::span<const int32_t> found, int32_t* ids, size_t capacity, size_t& n_ids) {
    n_ids = found.size();
    if (!ids) return {};
    if (found.size() > capacity)
        return fail(ErrorCode::InvalidArgument, "ids: expected room for %zu, found %zu", found.size(),
                    capacity);
    std::copy(found.begin(), found.end(), ids);
    return {};
}

Result<std::vector<int32_t>> infill_of(const tsr_model& model, const tsr_infill& given) {
    engine::Infill infill;
    TSR_TRY(infill.prefix, need_text(given.prefix, given.n_prefix, "prefix"));
    TSR_TRY(infill.suffix, need_text(given.suffix, given.n_suffix, "suffix"));
    TSR_TRY(infill.middle, need_text(given.middle, given.n_middle, "middle"));
    TSR_TRY(const auto files, need_span(given.files, given.n_files, "files"));
    std::vector<engine::InfillFile> read;
    for (const tsr_infill_file& file : files) {
        TSR_TRY(const std::string_view text, need_text(file.text, file.n_text, "files: text"));
        read.push_back({file.name ? file.name : "", text});
    }
    infill.files = read;
    if (given.name) infill.name = given.name;
    if (given.repo) infill.repo = given.repo;
    infill.suffix_first = given.suffix_first != 0;
    return engine::infill_tokens(*model.tokenizer, infill);
}

/// Fills `info` from a row of the parameter table with the default of `params`, which must outlive `info`.
Result<void> write_param(size_t i, const sample::Params& params, tsr_param_info* info) {
    const auto rows = sample::all_params();
    if (i >= rows.size())
        return fail(ErrorCode::NotFound, "sampling parameter: expected 0 to %zu, found %zu", rows.size() - 1,
                    i);
    tsr_param_info out{};
    out.name = rows[i].name.data();
    out.help = rows[i].help.data();
    out.min = rows[i].min;
    out.max = rows[i].max;
    out.is_text = !rows[i].is_number();
    out.default_text = "";
    if (out.is_text)
        out.default_text = params.text(rows[i].name).c_str();
    else
        out.default_value = params.number(rows[i].name);
    return write_struct(out, info, "info");
}

Result<void> check_id(const tsr_model& model, int32_t id) {
    if (model.tokenizer->vocab().contains(id)) return {};
    return fail(ErrorCode::InvalidArgument, "token: expected an id from 0 to %d, found %d",
                model.tokenizer->vocab().size() - 1, id);
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_model_load(const char* path, const tsr_model_options* options, tsr_model** model,
                          tsr_error* error) {
    if (model) *model = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(path, "path"));
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY(const tsr_model_options wanted, read_options(options, "options"));
        auto loaded = std::make_unique<tsr_model>();
        TSR_TRY_VOID(load(path, wanted, *loaded));
        *model = loaded.release();
        return {};
    });
}

tsr_status tsr_plan_memory(const char* path, const tsr_plan_options* options, tsr_plan* plan,
                           tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(path, "path"));
        TSR_TRY_VOID(need(plan, "plan"));
        TSR_TRY(const tsr_plan_options given, read_options(options, "options"));
        TSR_TRY_VOID(engine::check_range("n_threads", given.n_threads, 0, ThreadPool::kMaxThreads));
        TSR_TRY(const engine::MemoryDemand demand, demand_of(given));
        TSR_TRY(const engine::MemoryPlan found,
                engine::plan_file(
                    path, {.isa = given.isa ? given.isa : "", .precise = given.precise != 0, .progress = {}},
                    demand, given.n_threads > 0 ? given.n_threads : default_thread_count()));
        const uint64_t available = available_memory_bytes();
        const tsr_plan out{.size = sizeof out,
                           .process = found.process,
                           .packed = found.packed,
                           .mapped = found.mapped,
                           .cache = found.cache + found.states,
                           .activations = found.activations,
                           .scratch = found.scratch,
                           .sampling = found.sampling,
                           .total = found.total(),
                           .available = available,
                           .fits = engine::check_fits(found, available).has_value()};
        return write_struct(out, plan, "plan");
    });
}

void tsr_model_free(tsr_model* model) { delete model; }

tsr_status tsr_model_get_info(const tsr_model* model, tsr_model_info* info, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        return write_struct(info_of(*model), info, "info");
    });
}

tsr_status tsr_model_metadata(const tsr_model* model, const char* key, tsr_text* value, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(key, "key"));
        TSR_TRY_VOID(need(value, "value"));
        *value = {nullptr, 0};
        const gguf::Value* found = model->model->file().find(key);
        if (!found) return {};
        const auto text = found->as_string();
        return write_text(text ? std::string(*text) : found->to_string(), value);
    });
}

tsr_status tsr_tokenize(const tsr_model* model, const char* text, size_t n, uint32_t flags, int32_t* ids,
                        size_t capacity, size_t* n_ids, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(n_ids, "n_ids"));
        TSR_TRY_VOID(check_flags(flags, kEncodeFlags));
        TSR_TRY(const auto bytes, need_span(text, n, "text"));
        TSR_TRY(const auto found,
                model->tokenizer->encode({bytes.data(), bytes.size()},
                                         {.add_special = (flags & TSR_ADD_SPECIAL) != 0,
                                          .parse_special = (flags & TSR_PARSE_SPECIAL) != 0}));
        return write_ids(found, ids, capacity, *n_ids);
    });
}

tsr_status tsr_detokenize(const tsr_model* model, const int32_t* ids, size_t n, uint32_t flags,
                          tsr_text* text, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(check_flags(flags, TSR_SHOW_SPECIAL));
        TSR_TRY(const auto given, need_span(ids, n, "ids"));
        for (const int32_t id : given) TSR_TRY_VOID(check_id(*model, id));
        return write_text(model->tokenizer->decode(given, {.show_special = (flags & TSR_SHOW_SPECIAL) != 0}),
                          text);
    });
}

tsr_status tsr_token_bytes(const tsr_model* model, int32_t id, const char** bytes, size_t* n,
                           tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(bytes, "bytes"));
        TSR_TRY_VOID(need(n, "n"));
        TSR_TRY_VOID(check_id(*model, id));
        const std::string_view found = model->tokenizer->token_bytes(id);
        *bytes = found.data();
        *n = found.size();
        return {};
    });
}

int tsr_is_end(const tsr_model* model, int32_t id) {
    return model && model->tokenizer->vocab().contains(id) && model->tokenizer->vocab().is_end(id);
}

tsr_status tsr_infill_tokens(const tsr_model* model, const tsr_infill* infill, int32_t* ids, size_t capacity,
                             size_t* n_ids, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(infill, "infill"));
        TSR_TRY_VOID(need(n_ids, "n_ids"));
        TSR_TRY(const tsr_infill given, read_options(infill, "infill"));
        TSR_TRY(const auto found, infill_of(*model, given));
        return write_ids(found, ids, capacity, *n_ids);
    });
}

tsr_status tsr_sampling_param(size_t i, tsr_param_info* info, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        static const sample::Params ours;
        return write_param(i, ours, info);
    });
}

tsr_status tsr_model_sampling_param(const tsr_model* model, size_t i, tsr_param_info* info,
                                    tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        return write_param(i, model->sampling, info);
    });
}
