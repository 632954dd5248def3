// The C interface: sessions. Each session has its own thread pool, so that sessions of one model can run
// concurrently; idle pools sleep.
#include "src/capi/guard.h"
#include "src/capi/handles.h"

namespace tessera::capi {

namespace {

Result<void> create(const tsr_model& model, const tsr_session_options& options, tsr_session& out) {
    engine::SessionOptions wanted;
    wanted.n_ctx = options.n_ctx;
    if (options.n_batch != 0) wanted.n_batch = options.n_batch;
    TSR_TRY(wanted.k_type, cache_type(options.k_type, "k_type"));
    TSR_TRY(wanted.v_type, cache_type(options.v_type, "v_type"));
    wanted.npu = model.npu;
    TSR_TRY(const sample::Params params,
            sampling_params(model.sampling, options.sampling, options.n_sampling));
    TSR_TRY(out.pool, create_pool(options.n_threads));
    TSR_TRY(out.session, engine::Session::create(model.model, *out.pool, wanted));
    out.pool->set_abort_flag(&out.cancelled);
    out.tokenizer = model.tokenizer;
    out.constraints = model.constraints;
    const sample::Setting setting{.n_vocab = static_cast<int32_t>(model.model->hparams().n_vocab),
                                  .tokenizer = out.tokenizer.get(),
                                  .n_ctx = out.session->n_ctx()};
    TSR_TRY(sample::Chain chain, sample::Chain::create(params, setting));
    out.chain = std::make_unique<sample::Chain>(std::move(chain));
    return {};
}

/// Feeds the text to the sampler chain: penalties depend on it.
void accept_from(tsr_session& session, int64_t first) {
    const auto tokens = session.session->tokens();
    for (size_t i = static_cast<size_t>(first); i < tokens.size(); ++i) session.chain->accept(tokens[i]);
}

/// Rebuilds the sampling state after tokens were removed. The random numbers continue.
void accept_anew(tsr_session& session) {
    const uint64_t step = session.chain->step();
    session.chain->reset();
    session.chain->seek(step);
    accept_from(session, 0);
}

/// Clears the cancel flag once a call has ended with Cancelled.
template <class T>
Result<T> settled(tsr_session& session, Result<T> done) {
    if (!done && done.error().code == ErrorCode::Cancelled) session.cancelled.store(false);
    return done;
}

/// Checks that the grammar accepts all of the tokens.
Result<void> accept_by_grammar(tsr_session& session, std::span<const int32_t> tokens) {
    const size_t n_before = session.matcher->n_steps();
    for (const int32_t id : tokens) {
        auto taken = session.matcher->accept(id);
        if (taken) continue;
        session.matcher->rollback(session.matcher->n_steps() - n_before);
        return fail_in("grammar", std::move(taken.error()));
    }
    return {};
}

Result<void> eval(tsr_session& session, std::span<const int32_t> tokens) {
    const int64_t n_before = session.session->n_tok();
    if (session.matcher) TSR_TRY_VOID(accept_by_grammar(session, tokens));
    if (auto done = settled(session, session.session->eval(tokens)); !done) {
        if (session.matcher) session.matcher->rollback(tokens.size());
        return done;
    }
    accept_from(session, n_before);
    return {};
}

/// Rolls the grammar back with the text, at most to its own start.
void truncate(tsr_session& session, int64_t n) {
    const int64_t n_behind = session.session->n_tok() - std::max(n, session.n_free);
    if (session.matcher && n_behind > 0) session.matcher->rollback(static_cast<size_t>(n_behind));
    session.n_free = std::min(session.n_free, n);
    session.session->truncate(n);
    accept_anew(session);
}

Result<int32_t> draw(tsr_session& session) {
    sample::Limits limits;
    if (session.matcher) {
        session.matcher->mask(session.allowed);
        limits.allowed = session.allowed;
    }
    const int32_t id = session.chain->sample(session.session->logits(), limits);
    if (!session.chain->last().all_masked) return id;
    return fail(ErrorCode::InvalidArgument,
                "sampling: expected a token that grammar and parameters allow, found none");
}

Result<void> need_logits(const tsr_session& session) {
    if (session.session->has_logits()) return {};
    return fail(ErrorCode::InvalidArgument, "session: expected an evaluated token, found no logits");
}

}  // namespace

Result<engine::Pooling> pooling_of(const Model& model, tsr_pooling wanted) {
    switch (wanted) {
        case TSR_POOLING_DEFAULT:
            return engine::model_pooling(model);
        case TSR_POOLING_LAST:
            return engine::Pooling::Last;
        case TSR_POOLING_MEAN:
            return engine::Pooling::Mean;
    }
    return fail(ErrorCode::InvalidArgument, "pooling: expected one of tsr_pooling, found %d",
                static_cast<int>(wanted));
}

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_session_create(const tsr_model* model, const tsr_session_options* options,
                              tsr_session** session, tsr_error* error) {
    if (session) *session = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(model, "model"));
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY(const tsr_session_options wanted, read_options(options, "options"));
        auto created = std::make_unique<tsr_session>();
        TSR_TRY_VOID(create(*model, wanted, *created));
        *session = created.release();
        return {};
    });
}

void tsr_session_free(tsr_session* session) { delete session; }

tsr_status tsr_session_eval(tsr_session* session, const int32_t* tokens, size_t n, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY(const auto given, need_span(tokens, n, "tokens"));
        return eval(*session, given);
    });
}

tsr_status tsr_session_sync(tsr_session* session, const int32_t* tokens, size_t n, size_t* n_kept,
                            tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY(const auto given, need_span(tokens, n, "tokens"));
        session->matcher.reset();
        auto kept = settled(*session, session->session->sync(given));
        accept_anew(*session);
        if (!kept) return tl::unexpected<Error>(kept.error());
        if (n_kept) *n_kept = static_cast<size_t>(*kept);
        return {};
    });
}

tsr_status tsr_session_truncate(tsr_session* session, int64_t n, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(engine::check_range("n", n, 0, session->session->n_tok()));
        truncate(*session, n);
        return {};
    });
}

tsr_status tsr_session_constrain(tsr_session* session, const tsr_grammar* grammar, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        session->matcher.reset();
        if (!grammar) return {};
        TSR_TRY(const auto masks, session->constraints->masks(grammar->grammar));
        session->allowed.resize(masks->trie().mask_words());
        session->matcher = std::make_unique<grammar::Matcher>(masks);
        session->n_free = session->session->n_tok();
        return {};
    });
}

void tsr_session_cancel(tsr_session* session) {
    if (session) session->cancelled.store(true);
}

tsr_status tsr_session_embed(tsr_session* session, const int32_t* tokens, size_t n,
                             const tsr_embed_options* options, float* out, size_t capacity,
                             tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(out, "out"));
        TSR_TRY(const auto given, need_span(tokens, n, "tokens"));
        TSR_TRY(const tsr_embed_options wanted, read_options(options, "options"));
        TSR_TRY(const engine::Pooling pooling, pooling_of(session->session->model(), wanted.pooling));
        const std::span<float> row(out, capacity);
        session->matcher.reset();
        auto done = settled(*session, session->session->embed(given, pooling, row));
        accept_anew(*session);
        TSR_TRY_VOID(done);
        if (!wanted.raw)
            engine::normalize(row.first(static_cast<size_t>(session->session->model().hparams().n_embd)));
        return {};
    });
}

int64_t tsr_session_n_tokens(const tsr_session* session) { return session ? session->session->n_tok() : 0; }

int64_t tsr_session_n_ctx(const tsr_session* session) { return session ? session->session->n_ctx() : 0; }

tsr_status tsr_session_logits(const tsr_session* session, const float** logits, size_t* n_vocab,
                              tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(logits, "logits"));
        TSR_TRY_VOID(need(n_vocab, "n_vocab"));
        TSR_TRY_VOID(need_logits(*session));
        *logits = session->session->logits().data();
        *n_vocab = session->session->logits().size();
        return {};
    });
}

tsr_status tsr_session_sample(tsr_session* session, int32_t* id, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(id, "id"));
        TSR_TRY_VOID(need_logits(*session));
        TSR_TRY(*id, draw(*session));
        return {};
    });
}

tsr_status tsr_session_step(tsr_session* session, int32_t* id, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(id, "id"));
        TSR_TRY_VOID(need_logits(*session));
        TSR_TRY(const int32_t drawn, draw(*session));
        TSR_TRY_VOID(eval(*session, {&drawn, 1}));
        *id = drawn;
        return {};
    });
}

tsr_status tsr_session_save(const tsr_session* session, const char* path, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(path, "path"));
        return session->session->save(path);
    });
}

tsr_status tsr_session_restore(tsr_session* session, const char* path, tsr_error* error) {
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(session, "session"));
        TSR_TRY_VOID(need(path, "path"));
        session->matcher.reset();
        const auto restored = session->session->restore(path);
        accept_anew(*session);
        return restored;
    });
}
