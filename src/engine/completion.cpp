// Sampling, text and listener calls of one completion. The scheduler (scheduler.cpp) decides when it runs.
#include "src/engine/completion.h"

#include <algorithm>
#include <cmath>

#include "src/sample/row_norm.h"

namespace tessera::engine {

namespace {

/// The sampling parameters of the request; with ignore_eos, a bias of minus infinity on end-of-generation
/// tokens.
Result<sample::Params> sampling_of(const Request& request, const text::Vocab& vocab) {
    sample::Params params = request.sampling;
    if (!request.ignore_eos) return params;
    std::string biases = params.text("logit_bias");
    for (const int32_t id : vocab.end_ids()) biases += strf("%s%d-inf", biases.empty() ? "" : ",", id);
    TSR_TRY_VOID(params.set("logit_bias", biases));
    return params;
}

}  // namespace

Completion::Completion(std::shared_ptr<Job> job, int32_t index, const text::Tokenizer& tokenizer,
                       const kv::Pools& pools, sample::Chain chain)
    : job_(std::move(job)),
      tokenizer_(&tokenizer),
      index_(index),
      sequence_(pools.pages, pools.states),
      chain_(std::move(chain)),
      detokenizer_(tokenizer, {.at_text_start = false, .show_special = job_->request.show_special}),
      stops_(job_->request.stop),
      indent_(job_->request.n_indent) {}

Result<std::unique_ptr<Completion>> Completion::create(std::shared_ptr<Job> job, int32_t index,
                                                       const text::Tokenizer& tokenizer,
                                                       const kv::Pools& pools, int64_t n_ctx,
                                                       int64_t n_embd) {
    const Request& request = job->request;
    const auto n_vocab = static_cast<int32_t>(tokenizer.vocab().size());
    TSR_TRY(const sample::Params params, sampling_of(request, tokenizer.vocab()));
    const sample::Setting setting{.n_vocab = n_vocab, .tokenizer = &tokenizer, .n_ctx = n_ctx};
    TSR_TRY(sample::Chain chain, sample::Chain::create(params, setting, static_cast<uint64_t>(index)));
    for (const int32_t id : request.prompt) chain.accept(id);
    std::unique_ptr<Completion> out(
        new Completion(std::move(job), index, tokenizer, pools, std::move(chain)));
    out->tokens_.reserve(static_cast<size_t>(n_ctx) + 1);
    out->tokens_ = out->job_->request.prompt;
    out->top_.reserve(static_cast<size_t>(std::max(0, out->job_->request.n_top)) + 1);
    out->n_ctx_ = n_ctx;
    out->n_prompt_ = static_cast<int64_t>(out->tokens_.size());
    const std::vector<std::string> banned = params.list("banned_strings");
    if (!banned.empty()) out->ban_.emplace(banned, tokenizer);
    if (out->job_->masks) {
        out->allowed_.resize(out->job_->masks->trie().mask_words());
        out->matcher_.emplace(out->job_->masks);
    }
    const ReasoningLimit& reasoning = out->job_->request.reasoning;
    if (reasoning.max_tokens >= 0) out->reasoning_.emplace(reasoning);
    out->usage_.n_prompt = static_cast<int64_t>(out->tokens_.size());
    if (const auto pooling = out->job_->request.embedding)
        out->embedding_.emplace(*pooling, out->usage_.n_prompt, n_embd);
    return out;
}

void Completion::admitted(int64_t n_cached) {
    if (began_at_ > 0) return;
    began_at_ = now_seconds();
    usage_.queue_s = began_at_ - job_->submitted_at;
    usage_.n_cached = n_cached;
    report_prefill_progress();
}

/// Log probabilities before samplers: of the sampled token and of the n_top most probable tokens.
void Completion::rank(std::span<const float> logits) {
    top_.clear();
    const auto norm = sample::row_norm(logits);
    const auto log_p = [&norm](float logit) {
        return norm ? static_cast<float>(static_cast<double>(logit) - norm->log_sum) : -INFINITY;
    };
    log_p_ = log_p(logits[static_cast<size_t>(drawn_)]);
    const auto n_top = std::min(static_cast<size_t>(job_->request.n_top), logits.size());
    if (!norm || n_top == 0) return;
    const auto before = [](const TokenProb& a, const TokenProb& b) {
        return a.log_p > b.log_p || (a.log_p == b.log_p && a.id < b.id);
    };
    // A heap of the best tokens so far, the worst of them at the front.
    for (size_t id = 0; id < logits.size(); ++id) {
        const TokenProb found{static_cast<int32_t>(id), logits[id]};
        if (top_.size() == n_top) {
            if (!before(found, top_.front())) continue;
            std::pop_heap(top_.begin(), top_.end(), before);
            top_.pop_back();
        }
        top_.push_back(found);
        std::push_heap(top_.begin(), top_.end(), before);
    }
    std::sort_heap(top_.begin(), top_.end(), before);
    for (TokenProb& entry : top_) entry.log_p = log_p(entry.log_p);
}

void Completion::sample(std::span<const float> logits) {
    drawn_ = -1;
    if (matcher_ && matcher_->is_finished()) return;
    sample::Limits limits;
    if (matcher_) {
        matcher_->mask(allowed_);
        limits.allowed = allowed_;
    }
    if (ban_) limits.banned = ban_->banned();
    drawn_ = chain_.sample(logits, limits);
    if (job_->request.n_top >= 0) rank(logits);
}

void Completion::emit(int32_t id, std::string_view text) {
    if (!job_->listener.on_delta || (id < 0 && text.empty())) return;
    job_->listener.on_delta({index_, id, text, log_p_, top_});
}

void Completion::report_prefill_progress() const {
    const int64_t n_read = std::min(sequence_.n_tok(), usage_.n_prompt);
    if (usage_.n_generated == 0 && job_->listener.on_prompt)
        job_->listener.on_prompt(index_, n_read, usage_.n_prompt);
}

bool Completion::ends(Finish why) {
    ended_by_ = why;
    return false;
}

void Completion::show(int32_t id) {
    if (reasoning_) reasoning_->push(tokenizer_->token_bytes(id));
    emit(id, indent_.push(stops_.push(detokenizer_.push(id))));
}

/// Shows tokens that can no longer become part of a banned string, and removes tokens that became one.
bool Completion::append_held(int32_t id) {
    held_.push_back({log_p_, top_});
    if (auto pushed = ban_->push(id); !pushed) {
        error_ = pushed.error();
        return ends(Finish::Failed);
    }
    for (const int32_t released : ban_->released()) {
        log_p_ = held_.front().log_p;
        top_ = std::move(held_.front().top);
        held_.pop_front();
        show(released);
    }
    if (ban_->n_rewind() > 0) roll_back(ban_->n_rewind());
    return true;
}

/// Removes the last n tokens, as if they had not been sampled.
void Completion::roll_back(size_t n) {
    ++usage_.n_rewinds;
    held_.resize(held_.size() - n);
    tokens_.resize(tokens_.size() - n);
    usage_.n_generated -= static_cast<int64_t>(n);
    chain_.forget_text();
    for (const int32_t id : tokens_) chain_.accept(id);
    if (matcher_) matcher_->rollback(n);
    sequence_.rewind(static_cast<int64_t>(tokens_.size()) - 1);
}

/// Appends one token to the text. False if that ends the completion.
bool Completion::append(int32_t id) {
    const Request& request = job_->request;
    if (matcher_) {
        if (auto taken = matcher_->accept(id); !taken) {
            error_ = taken.error();
            return ends(Finish::Failed);
        }
    }
    ++usage_.n_generated;
    tokens_.push_back(id);
    chain_.accept(id);
    if (ban_) {
        if (!append_held(id)) return false;
    } else {
        show(id);
    }
    if (indent_.hit()) return ends(Finish::Indent);
    if (stops_.hit() >= 0) return ends(Finish::StopString);
    if (request.max_tokens > 0 && usage_.n_generated >= request.max_tokens) return ends(Finish::Length);
    if (static_cast<int64_t>(tokens_.size()) <= n_ctx_) return true;
    if (request.on_full == ContextPolicy::Stop) return ends(Finish::ContextFull);
    shift();
    return true;
}

/// Text that the grammar forces is appended as a whole and prefilled instead of being sampled token by token.
/// Its last token is left to the model, which may choose a longer token that begins with it.
bool Completion::append_forced() {
    constexpr size_t kLeast = 8, kMost = 1024;  // bytes
    const std::string forced = matcher_->forced_bytes(kMost);
    if (forced.size() < kLeast) return true;
    const auto ids = tokenizer_->encode(forced, {.add_special = false});
    if (!ids || ids->size() < 2) return true;
    // Tokenizers that add a space prefix would spell another text.
    std::string spelled;
    for (const int32_t id : *ids) spelled += tokenizer_->token_bytes(id);
    if (spelled != forced) return true;
    for (const int32_t id : std::span(*ids).first(ids->size() - 1)) {
        top_.clear();
        log_p_ = 0;
        if (!append(id)) return false;
    }
    return true;
}

/// The reasoning budget is exhausted: the end-of-reasoning text replaces the sampled token.
bool Completion::close_reasoning() {
    reasoning_->set_closed();
    const auto ids =
        tokenizer_->encode(job_->request.reasoning.close, {.add_special = false, .parse_special = true});
    if (!ids) {
        error_ = ids.error();
        return ends(Finish::Failed);
    }
    for (const int32_t id : *ids) {
        top_.clear();
        log_p_ = 0;
        if (!append(id)) return false;
    }
    return true;
}

bool Completion::commit_token() {
    const Request& request = job_->request;
    if (first_token_at_ == 0) {
        first_token_at_ = now_seconds();
        usage_.prompt_s = first_token_at_ - began_at_;
    }
    if (request.max_tokens == 0) return ends(Finish::Length);
    if (reasoning_ && reasoning_->is_spent()) return close_reasoning();
    if (drawn_ < 0) return ends(Finish::EndOfGeneration);  // the grammar allows no further token
    if (chain_.last().all_masked) {
        error_ = {ErrorCode::InvalidArgument,
                  "sampling: expected a token that grammar and parameters allow, found none"};
        return ends(Finish::Failed);
    }
    if (!request.ignore_eos && tokenizer_->vocab().is_end(drawn_)) return ends(Finish::EndOfGeneration);
    return append(drawn_) && (!matcher_ || ban_ || append_forced());
}

void Completion::shift() {
    const int64_t n_keep = std::min(job_->request.n_keep, n_ctx_ / 2);
    const int64_t n_drop = (static_cast<int64_t>(tokens_.size()) - n_keep + 1) / 2;
    tokens_.erase(tokens_.begin() + n_keep, tokens_.begin() + n_keep + n_drop);
    n_prompt_ = std::min(n_prompt_, n_keep) + std::max<int64_t>(0, n_prompt_ - n_keep - n_drop);
    usage_.n_shifted += n_drop;
    sequence_.rewind(n_keep);
}

void Completion::finish(Finish why) {
    for (const int32_t id : ban_&& stops_.hit() < 0 ? ban_->held() : std::span<const int32_t>()) {
        log_p_ = held_.front().log_p;
        top_ = std::move(held_.front().top);
        held_.pop_front();
        show(id);
    }
    top_.clear();
    emit(-1, indent_.push(stops_.push(detokenizer_.flush())));
    emit(-1, indent_.push(stops_.flush()));
    emit(-1, indent_.flush());
    if (first_token_at_ > 0) usage_.decode_s = now_seconds() - first_token_at_;
    std::vector<float> embedding;
    if (embedding_ && why == Finish::EndOfGeneration) {
        usage_.prompt_s = now_seconds() - began_at_;
        embedding.resize(embedding_->n_embd());
        embedding_->write(embedding);
    }
    job_->report_end({index_, why, why == Finish::StopString ? stops_.hit() : -1, std::move(error_),
                      chain_.seed(), chain_.names(), embedding, usage_});
}

}  // namespace tessera::engine
