// A session allocates everything once and then computes passes of at most n_batch tokens. The split of a
// prompt into passes does not change a bit of its logits.
#include "src/engine/session.h"

#include <algorithm>
#include <numeric>

#include "common/strings.h"
#include "src/engine/npu_model.h"

namespace tessera::engine {

namespace {

Result<void> check_kv_type(const char* name, Type type, int64_t head_dim) {
    const std::string found(type_info(type).name);
    if (std::find(std::begin(kKvTypes), std::end(kKvTypes), type) == std::end(kKvTypes))
        return fail(ErrorCode::Unsupported, "%s cache type: expected one of %s, found %s", name,
                    kv_type_names().c_str(), found.c_str());
    if (head_dim % type_info(type).block != 0)
        return fail(ErrorCode::Unsupported,
                    "%s cache type %s: expected a head size that is a multiple of %d, found %lld", name,
                    found.c_str(), type_info(type).block, static_cast<long long>(head_dim));
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
    TSR_TRY_VOID(check_kv_type("K", options.k_type, h.head_dim));
    TSR_TRY_VOID(check_kv_type("V", options.v_type, h.head_dim));
    plan.n_pages = (plan.n_ctx + kKvPage - 1) / kKvPage;
    plan.layout = kv::Layout::create(h.n_layer, h.n_head_kv, h.head_dim, options.k_type, options.v_type);
    return plan;
}

Result<CachePlan> plan_completion_cache(const Model& model, const SessionOptions& options) {
    TSR_TRY(CachePlan plan, plan_cache(model, options));
    const Hparams& h = model.hparams();
    std::vector<int64_t> windows;
    for (const LayerHparams& layer : h.layers)
        windows.push_back(layer.window < plan.n_ctx ? layer.window : 0);
    plan.layout =
        kv::Layout::create(windows, options.n_batch, h.n_head_kv, h.head_dim, options.k_type, options.v_type);
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
            .n_head = h.n_head,
            .n_head_kv = h.n_head_kv,
            .head_dim = h.head_dim,
            .n_expert = h.moe.n_expert};
}

Result<std::unique_ptr<CpuBackend>> create_backend(const Model& model, ThreadPool& pool, int64_t n_batch) {
    return CpuBackend::create(pool, model.kernels(), backend_limits(model, n_batch));
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
    TSR_TRY(session->activations_, Activations::create(*model, n_batch, std::min(options.max_out, n_batch)));
    TSR_TRY(kv::PagePool pages, kv::PagePool::create(std::move(plan.layout), plan.n_pages));
    session->pages_ = std::make_unique<kv::PagePool>(std::move(pages));
    session->sequence_ = std::make_unique<kv::Sequence>(*session->pages_);
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

Result<void> Session::step(std::span<const int32_t> tokens, std::span<const int32_t> outputs,
                           ActBuffer* hidden, Phase phase) {
    const int64_t n_tok = static_cast<int64_t>(tokens.size());
    if (!sequence_->reserve(n_tok))
        return fail(ErrorCode::OutOfMemory, "KV cache: expected %lld free pages, found %lld",
                    static_cast<long long>((n_tok + kKvPage - 1) / kKvPage),
                    static_cast<long long>(pages_->n_free()));
    const Segment segment{sequence_->pages(), 0, n_tok, sequence_->n_tok()};
    Backend& own = npu_ && npu_->computes(phase) ? npu_->backend() : *backend_;
    Backend& backend = front_ ? *front_ : own;
    forward(backend, *model_, pages_->layout(),
            {tokens, {&segment, 1}, outputs, n_ctx_, hidden, hidden ? std::ssize(outputs) : 0}, activations_);
    if (pool_->aborted()) return fail(ErrorCode::Cancelled, "evaluation was cancelled");
    sequence_->advance(n_tok);
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    last_out_ = static_cast<int64_t>(outputs.size()) - 1;
    return {};
}

Result<void> Session::eval(std::span<const int32_t> tokens, Phase phase) {
    TSR_TRY_VOID(check(tokens));
    const int64_t start = n_tok();
    const auto n_batch = static_cast<size_t>(activations_.max_tok);
    for (size_t at = 0; at < tokens.size(); at += n_batch) {
        const std::span<const int32_t> part = tokens.subspan(at, std::min(n_batch, tokens.size() - at));
        outputs_.clear();
        if (at + part.size() == tokens.size()) outputs_.push_back(static_cast<int32_t>(part.size() - 1));
        if (auto done = step(part, outputs_, nullptr, phase); !done) {
            truncate(start);
            return done;
        }
    }
    return {};
}

Result<void> Session::eval_all(std::span<const int32_t> tokens, const RowsFn& rows) {
    TSR_TRY_VOID(check(tokens));
    const int64_t start = n_tok();
    const auto n_part = static_cast<size_t>(activations_.max_out);
    for (size_t at = 0; at < tokens.size(); at += n_part) {
        const std::span<const int32_t> part = tokens.subspan(at, std::min(n_part, tokens.size() - at));
        outputs_.resize(part.size());
        std::iota(outputs_.begin(), outputs_.end(), 0);
        if (auto done = step(part, outputs_); !done) {
            truncate(start);
            return done;
        }
        if (!rows(static_cast<int64_t>(at), static_cast<int64_t>(part.size()), activations_.logits.f32))
            return {};
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
    const auto n_batch = static_cast<size_t>(activations_.max_tok);
    hidden_.resize(n_batch * n_embd);
    ActBuffer hidden{.name = "hidden", .dim = static_cast<int64_t>(n_embd)};
    hidden.f32 = hidden_.data();
    EmbeddingSum sum(pooling, std::ssize(tokens), hidden.dim);
    Result<void> done;
    for (size_t at = 0; at < tokens.size() && done; at += n_batch) {
        const auto part = tokens.subspan(at, std::min(n_batch, tokens.size() - at));
        outputs_.clear();
        sum.want(static_cast<int64_t>(at), std::ssize(part), 0, outputs_);
        done = step(part, outputs_, &hidden);
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
    const auto n_kept = ends.first - tokens.begin();
    truncate(n_kept);
    TSR_TRY_VOID(eval(tokens.subspan(static_cast<size_t>(n_kept))));
    return n_kept;
}

void Session::truncate(int64_t n) {
    if (n >= n_tok()) return;
    sequence_->truncate(n);
    tokens_.resize(static_cast<size_t>(n));
    last_out_ = -1;
}

std::span<const float> Session::logits() const {
    TSR_CHECK(last_out_ >= 0);
    return {activations_.logits.row(last_out_), static_cast<size_t>(model_->hparams().n_vocab)};
}

uint64_t Session::kv_bytes() const {
    return static_cast<uint64_t>(pages_->n_pages()) * pages_->layout().page_bytes;
}

}  // namespace tessera::engine
