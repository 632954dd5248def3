// The C interface: versions, errors, models, text and tokens. Each function checks its pointers, then calls
// the engine; guard.h turns what comes of it into a status.
#include <atomic>
#include <cstdlib>

#include "common/cpu.h"
#include "common/log.h"
#include "src/capi/guard.h"
#include "src/capi/handles.h"

namespace tessera::capi {

Result<void> write_text(std::string_view from, tsr_text* to) {
    TSR_TRY_VOID(need(to, "text"));
    *to = {nullptr, 0};
    auto* data = static_cast<char*>(std::malloc(from.size() + 1));
    if (!data) return fail(ErrorCode::OutOfMemory, "no memory for a text of %zu bytes", from.size());
    std::memcpy(data, from.data(), from.size());
    data[from.size()] = '\0';
    *to = {data, from.size()};
    return {};
}

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

Result<sample::Params> sampling_params(const tsr_param* params, size_t n) {
    TSR_TRY(const auto given, need_span(params, n, "sampling"));
    sample::Params out;
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

Result<void> load(const char* path, const tsr_model_options& options, tsr_model& out) {
    TSR_TRY(const auto pool, create_pool(options.n_threads));
    std::atomic<bool> abort{false};
    pool->set_abort_flag(&abort);
    const auto progress = [&](uint64_t done, uint64_t total) {
        if (options.progress && options.progress(options.user, done, total) != 0) abort.store(true);
    };
    TSR_TRY(static_cast<engine::Loaded&>(out), engine::load(path, *pool,
                                                            {.isa = options.isa ? options.isa : "",
                                                             .precise = options.precise != 0,
                                                             .progress = progress}));
    if (abort.load()) return fail(ErrorCode::Cancelled, "'%s': loading was cancelled", path);
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
    out.n_head = h.n_head;
    out.n_head_kv = h.n_head_kv;
    out.n_vocab = static_cast<int32_t>(h.n_vocab);
    out.bos = special.bos;
    out.eos = special.eos;
    return out;
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

const char* tsr_status_name(tsr_status status) {
    switch (status) {
        case TSR_OK:
            return "ok";
        case TSR_INVALID_ARGUMENT:
            return error_code_name(ErrorCode::InvalidArgument);
        case TSR_NOT_FOUND:
            return error_code_name(ErrorCode::NotFound);
        case TSR_MALFORMED:
            return error_code_name(ErrorCode::Malformed);
        case TSR_UNSUPPORTED:
            return error_code_name(ErrorCode::Unsupported);
        case TSR_OUT_OF_MEMORY:
            return error_code_name(ErrorCode::OutOfMemory);
        case TSR_IO:
            return error_code_name(ErrorCode::Io);
        case TSR_CANCELLED:
            return error_code_name(ErrorCode::Cancelled);
        case TSR_BUSY:
            return error_code_name(ErrorCode::Busy);
        case TSR_INTERNAL:
            return error_code_name(ErrorCode::Internal);
    }
    return "unknown status";
}

const char* tsr_version(void) { return TSR_VERSION; }

int tsr_abi_version(void) { return TSR_ABI_VERSION; }

void tsr_set_log(tsr_log_fn log, void* user) {
    guarded(nullptr, [&]() -> Result<void> {
        if (!log) {
            log::set_sink({});
            return {};
        }
        log::set_sink([log, user](log::Level level, std::string_view message) {
            if (level == log::Level::Debug) return;
            log(user, static_cast<int>(log::Level::Error) - static_cast<int>(level),
                std::string(message).c_str());
        });
        return {};
    });
}

void tsr_text_free(tsr_text* text) {
    if (!text) return;
    std::free(text->data);
    *text = {nullptr, 0};
}

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
        *n_ids = found.size();
        if (!ids) return {};
        if (found.size() > capacity)
            return fail(ErrorCode::InvalidArgument, "ids: expected room for %zu, found %zu", found.size(),
                        capacity);
        std::copy(found.begin(), found.end(), ids);
        return {};
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

tsr_status tsr_sampling_param(size_t i, tsr_param_info* info, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        const auto rows = sample::all_params();
        if (i >= rows.size())
            return fail(ErrorCode::NotFound, "sampling parameter: expected 0 to %zu, found %zu",
                        rows.size() - 1, i);
        tsr_param_info out{};
        out.name = rows[i].name.data();
        out.help = rows[i].help.data();
        out.default_value = rows[i].default_value;
        out.min = rows[i].min;
        out.max = rows[i].max;
        out.is_text = !rows[i].is_number();
        return write_struct(out, info, "info");
    });
}
