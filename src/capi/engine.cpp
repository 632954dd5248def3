// The C interface: engines and requests. A request's strings and callbacks are copied, so that the caller's
// memory is free when submit returns.
#include <algorithm>
#include <optional>

#include "src/capi/guard.h"
#include "src/capi/handles.h"

namespace tessera::capi {

namespace {

constexpr uint32_t kRequestFlags = TSR_IGNORE_END | TSR_SHOW_SPECIAL_TEXT | TSR_SHIFT_CONTEXT |
                                   TSR_LOG_PROBS | TSR_FITS_CONTEXT | TSR_PROMPT_ONLY | TSR_NO_PREFIX_CACHE;

static_assert(static_cast<int>(engine::Finish::Indent) == TSR_FINISH_INDENT, "the two lists are one");
static_assert(sizeof(engine::TokenProb) == sizeof(tsr_token_prob));

Result<void> create(const tsr_model& model, const tsr_engine_options& options, tsr_engine& out) {
    engine::EngineOptions wanted;
    wanted.n_ctx = options.n_ctx;
    wanted.kv_bytes = options.kv_bytes;
    if (options.n_batch != 0) wanted.n_batch = options.n_batch;
    if (options.max_running != 0) wanted.max_running = options.max_running;
    if (options.max_queue != 0) wanted.max_queue = options.max_queue;
    TSR_TRY(wanted.k_type, cache_type(options.k_type, "k_type"));
    TSR_TRY(wanted.v_type, cache_type(options.v_type, "v_type"));
    wanted.npu = model.npu;
    out.sampling = model.sampling;
    TSR_TRY(out.pool, create_pool(options.n_threads));
    TSR_TRY(out.engine, engine::Engine::create(model.model, model.tokenizer, *out.pool, wanted));
    return {};
}

/// `embed`: the options' embed field, or null.
Result<engine::Request> request_of(const Model& model, const sample::Params& defaults,
                                   const tsr_request_options& options,
                                   const std::optional<tsr_embed_options>& embed) {
    engine::Request out;
    if ((options.flags & ~kRequestFlags) != 0)
        return fail(ErrorCode::InvalidArgument, "flags: expected a combination of 0x%x, found 0x%x",
                    kRequestFlags, options.flags);
    TSR_TRY(const auto tokens, need_span(options.tokens, options.n_tokens, "tokens"));
    out.prompt.assign(tokens.begin(), tokens.end());
    TSR_TRY_VOID(engine::check_range("max_tokens", options.max_tokens, 0, INT64_MAX));
    out.max_tokens = options.flags & TSR_PROMPT_ONLY ? 0 : options.max_tokens > 0 ? options.max_tokens : -1;
    TSR_TRY(out.sampling, sampling_params(defaults, options.sampling, options.n_sampling));
    TSR_TRY(const auto stops, need_span(options.stop, options.n_stop, "stop"));
    for (const char* stop : stops) {
        TSR_TRY_VOID(need(stop, "stop string"));
        out.stop.emplace_back(stop);
    }
    out.n = options.n_completions == 0 ? 1 : options.n_completions;
    TSR_TRY_VOID(engine::check_range("n_top", options.n_top, 0, 64));
    if (options.flags & TSR_LOG_PROBS) out.n_top = options.n_top;
    out.ignore_eos = options.flags & TSR_IGNORE_END;
    out.show_special = options.flags & TSR_SHOW_SPECIAL_TEXT;
    out.no_prefix_cache = options.flags & TSR_NO_PREFIX_CACHE;
    if (options.flags & TSR_SHIFT_CONTEXT && options.flags & TSR_FITS_CONTEXT)
        return fail(ErrorCode::InvalidArgument,
                    "flags: expected TSR_SHIFT_CONTEXT or TSR_FITS_CONTEXT, found both");
    if (options.flags & TSR_SHIFT_CONTEXT) out.on_full = engine::ContextPolicy::Shift;
    if (options.flags & TSR_FITS_CONTEXT) out.on_full = engine::ContextPolicy::Error;
    TSR_TRY_VOID(engine::check_range("n_keep", options.n_keep, 0, INT64_MAX));
    out.n_keep = options.n_keep;
    TSR_TRY_VOID(engine::check_range("n_indent", options.n_indent, 0, INT64_MAX));
    out.n_indent = options.n_indent;
    out.priority = options.priority;
    if (options.client) out.client = options.client;
    if (!(options.deadline_s >= 0))
        return fail(ErrorCode::InvalidArgument, "deadline_s: expected 0 or more, found %f",
                    options.deadline_s);
    out.deadline_s = options.deadline_s;
    if (options.grammar) out.grammar = options.grammar->grammar;
    TSR_TRY_VOID(engine::check_range("max_reasoning", options.max_reasoning, -1, INT64_MAX));
    if (options.max_reasoning != 0) {
        TSR_TRY_VOID(need(options.prompt, "prompt"));
        const int64_t most = std::max<int64_t>(options.max_reasoning, 0);
        out.reasoning = engine::reasoning_limit_of(*options.prompt, most);
    }
    if (embed) {
        TSR_TRY(out.embedding, pooling_of(model, embed->pooling));
    }
    return out;
}

engine::Listener listener_of(const tsr_request_options& options, bool normalizes) {
    engine::Listener out;
    if (options.on_delta)
        out.on_delta = [call = options.on_delta, user = options.user](const engine::Delta& delta) {
            tsr_delta c{};
            c.size = sizeof c;
            c.completion = delta.completion;
            c.id = delta.id;
            c.text = delta.text.data();
            c.n_text = delta.text.size();
            c.log_p = delta.log_p;
            c.top = reinterpret_cast<const tsr_token_prob*>(delta.top.data());
            c.n_top = delta.top.size();
            call(user, &c);
        };
    if (options.on_finish)
        out.on_finish = [call = options.on_finish, user = options.user,
                         normalizes](const engine::Outcome& end) {
            std::vector<float> embedding(end.embedding.begin(), end.embedding.end());
            if (normalizes) engine::normalize(embedding);
            tsr_outcome c{};
            c.size = sizeof c;
            c.completion = end.completion;
            c.finish = static_cast<tsr_finish>(end.finish);
            c.stop_index = end.stop_index;
            c.seed = end.seed;
            c.n_prompt = end.usage.n_prompt;
            c.n_cached = end.usage.n_cached;
            c.n_generated = end.usage.n_generated;
            c.n_shifted = end.usage.n_shifted;
            c.queue_s = end.usage.queue_s;
            c.prompt_s = end.usage.prompt_s;
            c.decode_s = end.usage.decode_s;
            c.error = end.finish == engine::Finish::Failed ? end.error.message.c_str() : nullptr;
            c.embedding = embedding.empty() ? nullptr : embedding.data();
            c.n_embedding = embedding.size();
            call(user, &c);
        };
    if (options.on_prompt)
        out.on_prompt = [call = options.on_prompt, user = options.user](int32_t completion, int64_t n_read,
                                                                        int64_t n_prompt) {
            call(user, completion, n_read, n_prompt);
        };
    return out;
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_engine_create(const tsr_model* model, const tsr_engine_options* options, tsr_engine** engine,
                             tsr_error* error) {
    if (engine) *engine = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(engine, "engine"));
        TSR_TRY(const tsr_engine_options wanted, read_options(options, "options"));
        auto created = std::make_unique<tsr_engine>();
        TSR_TRY_VOID(create(*model, wanted, *created));
        *engine = created.release();
        return {};
    });
}

void tsr_engine_free(tsr_engine* engine) { delete engine; }

tsr_status tsr_engine_submit(tsr_engine* engine, const tsr_request_options* options, tsr_request** request,
                             tsr_error* error) {
    if (request) *request = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(engine, "engine"));
        TSR_TRY_VOID(need(options, "options"));
        TSR_TRY(const tsr_request_options wanted, read_options(options, "options"));
        std::optional<tsr_embed_options> embed;
        if (wanted.embed) {
            TSR_TRY(embed, read_options(wanted.embed, "embed"));
        }
        TSR_TRY(engine::Request asked, request_of(engine->engine->model(), engine->sampling, wanted, embed));
        auto listener = listener_of(wanted, embed && !embed->raw);
        TSR_TRY(engine::Ticket ticket, engine->engine->submit(std::move(asked), std::move(listener)));
        if (request) *request = new tsr_request{std::move(ticket)};
        return {};
    });
}

void tsr_request_cancel(tsr_request* request) {
    if (request) request->ticket.cancel();
}

void tsr_request_wait(const tsr_request* request) {
    if (request) request->ticket.wait();
}

int tsr_request_done(const tsr_request* request) { return !request || request->ticket.done(); }

void tsr_request_free(tsr_request* request) { delete request; }

tsr_status tsr_engine_get_stats(const tsr_engine* engine, tsr_engine_stats* stats, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(engine, "engine"));
        const engine::EngineStats now = engine->engine->stats();
        tsr_engine_stats out{};
        out.n_running = now.n_running;
        out.n_waiting = now.n_waiting;
        out.n_pages = now.n_pages;
        out.n_pages_free = now.n_pages_free;
        out.n_pages_cached = now.n_pages_cached;
        out.n_passes = now.n_passes;
        out.n_preemptions = now.n_preemptions;
        out.n_prompt_tokens = now.n_prompt_tokens;
        out.n_cached_tokens = now.n_cached_tokens;
        out.n_generated_tokens = now.n_generated_tokens;
        out.forward_s = now.forward_s;
        out.other_s = now.other_s;
        out.n_ctx = engine->engine->n_ctx();
        out.kv_bytes = engine->engine->kv_bytes();
        return write_struct(out, stats, "stats");
    });
}
