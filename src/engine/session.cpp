// A session allocates everything once and then computes passes of at most n_batch tokens. The split of a
// prompt into passes does not change a bit of its logits.
#include "src/engine/session.h"

#include <algorithm>
#include <numeric>

#include "common/strings.h"
#include "src/engine/npu_model.h"

namespace tessera::engine {

namespace {

/// Slots of state that each context has: those of a pass, checkpoints at the start, at the last page border
/// and at the end of the latest prompt, and one for each kCheckpointSpacing positions, up to a limit, since
/// the state of a large model takes tens of megabytes.
constexpr int64_t kPassStates = 2, kPromptCheckpoints = 3, kMaxCheckpoints = 8;

int64_t states_of_context(int64_t n_ctx) {
    return kPassStates + std::min(kMaxCheckpoints, kPromptCheckpoints + n_ctx / kv::kCheckpointSpacing);
}

/// dim: the elements of a head in each layer.
Result<void> check_kv_type(const char* name, Type type, const Hparams& h, int64_t LayerSpec::*dim) {
    const std::string found(type_info(type).name);
    if (std::find(std::begin(kKvTypes), std::end(kKvTypes), type) == std::end(kKvTypes))
        return fail(ErrorCode::Unsupported, "%s cache type: expected one of %s, found %s", name,
                    kv_type_names().c_str(), found.c_str());
    for (size_t i = 0; i < h.layers.size(); ++i)
        if (const int64_t n = h.layers[i].*dim; n % type_info(type).block != 0)
            return fail(
                ErrorCode::Unsupported,
                "%s cache type %s: expected a head size that is a multiple of %d, found %lld in layer %zu",
                name, found.c_str(), type_info(type).block, static_cast<long long>(n), i);
    return {};
}

}  // namespace

Result<void> check_range(const char* name, int64_t value, int64_t min, int64_t max) {
    if (value >= min && value <= max) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected %lld to %lld, found %lld", name,
                static_cast<long long>(min), static_cast<long long>(max), static_cast<long long>(value));
}

Result<CachePlan> plan_cache(const Model& model, const SessionOptions& options) {
    const Hparams& h = model.hparams();
    CachePlan plan;
    plan.n_ctx = options.n_ctx;
    if (plan.n_ctx == 0) plan.n_ctx = std::min(h.n_ctx_train, SessionOptions::kDefaultCtx);
    TSR_TRY_VOID(check_range("context size", plan.n_ctx, 1, int64_t{1} << 24));
    TSR_TRY_VOID(check_kv_type("K", options.k_type, h, &LayerSpec::k_dim));
    TSR_TRY_VOID(check_kv_type("V", options.v_type, h, &LayerSpec::v_dim));
    plan.n_pages = (plan.n_ctx + kKvPage - 1) / kKvPage;
    plan.layout = kv::Layout::create(h.layers, options.k_type, options.v_type);
    std::vector<int64_t> state_floats;
    for (const LayerSpec& layer : h.layers) state_floats.push_back(layer.state_floats);
    plan.states = kv::StateLayout::create(state_floats);
    if (plan.states.slot_bytes > 0) plan.n_states = states_of_context(plan.n_ctx);
    return plan;
}

Result<CachePlan> plan_completion_cache(const Model& model, const SessionOptions& options) {
    TSR_TRY(CachePlan plan, plan_cache(model, options));
    plan.layout = kv::Layout::create_windowed(model.hparams().layers, plan.n_ctx, options.n_batch,
                                              options.k_type, options.v_type);
    plan.n_pages = plan.layout.pages_of(plan.n_ctx);
    return plan;
}

std::string kv_type_names() {
    std::string names;
    for (const Type type : kKvTypes) names += (names.empty() ? "" : ", ") + std::string(type_info(type).name);
    return names;
}

Result<Type> kv_type_from_name(std::string_view name) {
    const auto type = type_from_name(name);
    if (type && std::find(std::begin(kKvTypes), std::end(kKvTypes), *type) != std::end(kKvTypes))
        return *type;
    return fail(ErrorCode::InvalidArgument, "expected one of %s, found '%s'", kv_type_names().c_str(),
                printable(name).c_str());
}

CpuBackend::Limits backend_limits(const Model& model, int64_t n_batch) {
    const Hparams& h = model.hparams();
    return {.max_tok = n_batch,
            .max_rows = n_batch * std::max<int64_t>(1, h.moe.n_used),
            .n_head = h.largest(&LayerSpec::n_head),
            .n_group = h.largest([](const LayerSpec& layer) { return layer.n_head / layer.n_head_kv; }),
            .k_dim = h.largest(&LayerSpec::k_dim),
            .v_dim = h.largest(&LayerSpec::v_dim),
            .n_expert = h.moe.n_expert};
}

Result<std::unique_ptr<CpuBackend>> create_backend(const Model& model, ThreadPool& pool, int64_t n_batch) {
    return CpuBackend::create(pool, model.kernels(), backend_limits(model, n_batch), kernels::choose_tuning(),
                              model.float_products());
}

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, ThreadPool& pool,
                                                 const SessionOptions& options) {
    TSR_TRY(CachePlan plan, plan_cache(*model, options));
    TSR_TRY_VOID(check_range("batch size", options.n_batch, 1, 4096));
    TSR_TRY_VOID(check_range("output rows", options.max_out, 1, options.n_batch));
    const int64_t n_batch = std::min(options.n_batch, plan.n_ctx);

    std::unique_ptr<Session> session(new Session());
    session->n_ctx_ = plan.n_ctx;
    session->pool_ = &pool;
    TSR_TRY(session->backend_, create_backend(*model, pool, n_batch));
    TSR_TRY(session->activations_, Activations::create(*model, n_batch, std::min(options.max_out, n_batch),
                                                       options.all_floats || options.npu));
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(std::move(plan.layout), plan.n_pages));
    session->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    TSR_TRY(kv::StatePool states, kv::StatePool::create(std::move(plan.states), plan.n_states));
    session->states_ = std::make_unique<kv::StatePool>(std::move(states));
    session->sequence_ = std::make_unique<kv::Sequence>(*session->pages_, session->states_.get());
    session->tokens_.reserve(static_cast<size_t>(session->n_ctx_));
    session->outputs_.reserve(static_cast<size_t>(n_batch));
    if (options.npu) {
        TSR_TRY(session->npu_, options.npu->start(*model, *session->backend_, session->n_ctx_, n_batch,
                                                  std::min(options.max_out, n_batch)));
    }
    session->model_ = std::move(model);
    return session;
}

Session::Session() = default;
Session::~Session() = default;

Result<void> Session::check(std::span<const int32_t> tokens) const {
    if (tokens.empty()) return fail(ErrorCode::InvalidArgument, "tokens: expected at least one, found none");
    const int64_t n_vocab = model_->hparams().n_vocab;
    for (size_t i = 0; i < tokens.size(); ++i)
        if (tokens[i] < 0 || tokens[i] >= n_vocab)
            return fail(ErrorCode::InvalidArgument, "token %zu: expected an id from 0 to %lld, found %d", i,
                        static_cast<long long>(n_vocab - 1), tokens[i]);
    const int64_t free = n_ctx_ - n_tok();
    if (static_cast<int64_t>(tokens.size()) > free)
        return fail(
            ErrorCode::InvalidArgument,
            "context of %lld positions is full: expected at most %lld more tokens, found %zu (raise --ctx)",
            static_cast<long long>(n_ctx_), static_cast<long long>(free), tokens.size());
    return {};
}

/// Computes the next n pending tokens in one pass.
Result<void> Session::step(int64_t n_tok, std::span<const int32_t> outputs, ActBuffer* hidden, Phase phase) {
    const std::span<const int32_t> tokens = pending().first(static_cast<size_t>(n_tok));
    const int64_t n_left = std::ssize(pending()) - n_tok;
    if (!sequence_->reserve(n_tok))
        return fail(ErrorCode::OutOfMemory, "KV cache: expected %lld free pages, found %lld",
                    static_cast<long long>((n_tok + kKvPage - 1) / kKvPage),
                    static_cast<long long>(pages_->n_free()));
    const Segment segment{.pages = sequence_->pages(),
                          .n_tok = n_tok,
                          .pos0 = sequence_->n_tok(),
                          .state_in = sequence_->state_in(),
                          .state_out = sequence_->state_out()};
    Backend& own = npu_ && npu_->computes(phase) ? npu_->backend() : *backend_;
    Backend& backend = front_ ? *front_ : own;
    forward(backend, *model_, pages_->layout(),
            {tokens, {&segment, 1}, outputs, n_ctx_, hidden, hidden ? std::ssize(outputs) : 0}, activations_);
    if (pool_->aborted()) return fail(ErrorCode::Cancelled, "evaluation was cancelled");
    sequence_->advance(n_tok, n_left);
    last_out_ = static_cast<int64_t>(outputs.size()) - 1;
    return {};
}

/// Appends checked tokens to the text; they are pending. The computation can go back to their start.
void Session::append(std::span<const int32_t> tokens) {
    if (tokens.size() > 1 && pending().empty()) sequence_->checkpoint();
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

/// Computes all pending tokens, and the logits of the last.
Result<void> Session::compute_pending(Phase phase) {
    while (!pending().empty()) {
        const int64_t n_pending = std::ssize(pending());
        const int64_t n = std::min(sequence_->pass_tokens(n_pending), activations_.max_tok);
        outputs_.clear();
        if (n == n_pending) outputs_.push_back(static_cast<int32_t>(n - 1));
        TSR_TRY_VOID(step(n, outputs_, nullptr, phase));
    }
    return {};
}

/// After a failed pass: the text is that of n tokens again.
void Session::roll_back(int64_t n_tok) {
    tokens_.resize(static_cast<size_t>(n_tok));
    sequence_->rewind(n_tok);
    last_out_ = -1;
}

Result<void> Session::eval(std::span<const int32_t> tokens, Phase phase) {
    TSR_TRY_VOID(check(tokens));
    const int64_t start = n_tok();
    append(tokens);
    auto done = compute_pending(phase);
    if (!done) roll_back(start);
    return done;
}

Result<void> Session::eval_all(std::span<const int32_t> tokens, const RowsFn& rows) {
    TSR_TRY_VOID(check(tokens));
    const int64_t start = n_tok();
    if (auto done = compute_pending(Phase::Prefill); !done) return done;
    append(tokens);
    for (int64_t at = 0; at < std::ssize(tokens);) {
        const int64_t n = std::min(sequence_->pass_tokens(std::ssize(pending())), activations_.max_out);
        outputs_.resize(static_cast<size_t>(n));
        std::iota(outputs_.begin(), outputs_.end(), 0);
        if (auto done = step(n, outputs_); !done) {
            roll_back(start);
            return done;
        }
        if (!rows(at, n, activations_.logits.f32)) {
            tokens_.resize(static_cast<size_t>(sequence_->n_tok()));
            return {};
        }
        at += n;
    }
    return {};
}

Result<void> Session::embed(std::span<const int32_t> tokens, Pooling pooling, std::span<float> out) {
    const auto n_embd = static_cast<size_t>(model_->hparams().n_embd);
    if (out.size() < n_embd)
        return fail(ErrorCode::InvalidArgument, "embedding: expected room for %zu floats, found %zu", n_embd,
                    out.size());
    truncate(0);
    TSR_TRY_VOID(check(tokens));
    hidden_.resize(static_cast<size_t>(activations_.max_tok) * n_embd);
    ActBuffer hidden{.name = "hidden", .dim = static_cast<int64_t>(n_embd)};
    hidden.f32 = hidden_.data();
    EmbeddingSum sum(pooling, std::ssize(tokens), hidden.dim);
    append(tokens);
    Result<void> done;
    while (!pending().empty() && done) {
        const int64_t n = std::min(std::ssize(pending()), activations_.max_tok);
        outputs_.clear();
        sum.want(sequence_->n_tok(), n, 0, outputs_);
        done = step(n, outputs_, &hidden);
        for (size_t row = 0; row < outputs_.size() && done; ++row)
            sum.add({hidden.row(static_cast<int64_t>(row)), n_embd});
    }
    truncate(0);
    TSR_TRY_VOID(done);
    sum.write(out);
    return {};
}

Result<int64_t> Session::sync(std::span<const int32_t> tokens) {
    if (tokens.empty()) return fail(ErrorCode::InvalidArgument, "tokens: expected at least one, found none");
    const auto ends = std::mismatch(tokens.begin(), tokens.end() - 1, tokens_.begin(), tokens_.end());
    const auto n_common = ends.first - tokens.begin();
    truncate(n_common);
    const int64_t n_kept = sequence_->n_tok();
    TSR_TRY_VOID(eval(tokens.subspan(static_cast<size_t>(n_common))));
    return n_kept;
}

void Session::truncate(int64_t n) {
    if (n >= n_tok()) return;
    tokens_.resize(static_cast<size_t>(n));
    sequence_->rewind(n);
    last_out_ = -1;
}

std::span<const float> Session::logits() const {
    TSR_CHECK(last_out_ >= 0);
    return {activations_.logits.row(last_out_), static_cast<size_t>(model_->hparams().n_vocab)};
}

uint64_t Session::kv_bytes() const {
    return static_cast<uint64_t>(pages_->n_pages()) * pages_->layout().page_bytes +
           kv::StatePool::bytes(states_->layout(), states_->n_slots());
}

}  // namespace tessera::engine
