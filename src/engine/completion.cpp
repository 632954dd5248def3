// A completion's own part of a pass: drawing its token and telling its listener. What runs when is the
// scheduler's business (scheduler.cpp).
#include "src/engine/completion.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "src/engine/perplexity.h"

namespace tessera::engine {

namespace {

/// The request's parameters, with the ends of generation ruled out where it wants none.
Result<sample::Params> sampling_of(const Request& request, const text::Vocab& vocab) {
    sample::Params params = request.sampling;
    if (!request.ignore_eos) return params;
    std::string biases = params.text("logit_bias");
    for (const int32_t id : vocab.end_ids()) biases += strf("%s%d-inf", biases.empty() ? "" : ",", id);
    TSR_TRY_VOID(params.set("logit_bias", biases));
    return params;
}

}  // namespace

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

const char* finish_name(Finish finish) {
    switch (finish) {
        case Finish::EndOfGeneration:
            return "end";
        case Finish::StopString:
            return "stop_string";
        case Finish::Length:
            return "length";
        case Finish::ContextFull:
            return "context_full";
        case Finish::Cancelled:
            return "cancelled";
        case Finish::Deadline:
            return "deadline";
        case Finish::Failed:
            return "failed";
    }
    return "unknown";
}

Completion::Completion(std::shared_ptr<Job> job, int32_t index, const text::Tokenizer& tokenizer,
                       kv::PagePool& pages, sample::Chain chain)
    : job_(std::move(job)),
      vocab_(&tokenizer.vocab()),
      index_(index),
      sequence_(pages),
      chain_(std::move(chain)),
      detokenizer_(tokenizer, {.at_text_start = false, .show_special = job_->request.show_special}),
      stops_(job_->request.stop) {}

Result<std::unique_ptr<Completion>> Completion::create(std::shared_ptr<Job> job, int32_t index,
                                                       const text::Tokenizer& tokenizer, kv::PagePool& pages,
                                                       int64_t n_ctx) {
    const Request& request = job->request;
    const auto n_vocab = static_cast<int32_t>(tokenizer.vocab().size());
    TSR_TRY(const sample::Params params, sampling_of(request, tokenizer.vocab()));
    TSR_TRY(sample::Chain chain, sample::Chain::create(params, n_vocab, static_cast<uint64_t>(index)));
    for (const int32_t id : request.prompt) chain.accept(id);
    std::unique_ptr<Completion> out(
        new Completion(std::move(job), index, tokenizer, pages, std::move(chain)));
    out->tokens_.reserve(static_cast<size_t>(n_ctx) + 1);
    out->tokens_ = out->job_->request.prompt;
    out->top_.reserve(static_cast<size_t>(std::max(0, out->job_->request.n_top)) + 1);
    out->n_ctx_ = n_ctx;
    out->usage_.n_prompt = static_cast<int64_t>(out->tokens_.size());
    return out;
}

void Completion::admitted(int64_t n_cached) {
    if (began_at_ > 0) return;
    began_at_ = steady_seconds();
    usage_.queue_s = began_at_ - job_->submitted_at;
    usage_.n_cached = n_cached;
}

/// Log probabilities by the model alone: of the drawn token and of the likeliest.
void Completion::rank(std::span<const float> logits) {
    top_.clear();
    const auto norm = row_norm(logits);
    const auto log_p = [&](size_t id) {
        return norm ? static_cast<float>(static_cast<double>(logits[id]) - norm->log_sum) : -INFINITY;
    };
    log_p_ = log_p(static_cast<size_t>(drawn_));
    const auto n_top = std::min(static_cast<size_t>(job_->request.n_top), logits.size());
    if (!norm || n_top == 0) return;
    const auto before = [](const TokenProb& a, const TokenProb& b) {
        return a.log_p > b.log_p || (a.log_p == b.log_p && a.id < b.id);
    };
    // A heap whose front is the worst of the best so far.
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
    for (TokenProb& entry : top_) entry.log_p = log_p(static_cast<size_t>(entry.id));
}

void Completion::sample(std::span<const float> logits) {
    drawn_ = chain_.sample(logits);
    if (job_->request.n_top >= 0) rank(logits);
}

void Completion::emit(int32_t id, std::string_view text) {
    if (!job_->listener.on_delta || (id < 0 && text.empty())) return;
    job_->listener.on_delta({index_, id, text, log_p_, top_});
}

bool Completion::take() {
    const Request& request = job_->request;
    if (first_token_at_ == 0) {
        first_token_at_ = steady_seconds();
        usage_.prompt_s = first_token_at_ - began_at_;
    }
    const auto ends = [this](Finish why) {
        ended_by_ = why;
        return false;
    };
    if (request.max_tokens == 0) return ends(Finish::Length);
    if (!request.ignore_eos && vocab_->is_end(drawn_)) return ends(Finish::EndOfGeneration);
    ++usage_.n_generated;
    tokens_.push_back(drawn_);
    chain_.accept(drawn_);
    emit(drawn_, stops_.push(detokenizer_.push(drawn_)));
    if (stops_.hit() >= 0) return ends(Finish::StopString);
    if (request.max_tokens > 0 && usage_.n_generated >= request.max_tokens) return ends(Finish::Length);
    if (static_cast<int64_t>(tokens_.size()) <= n_ctx_) return true;
    if (request.on_full == ContextPolicy::Stop) return ends(Finish::ContextFull);
    shift();
    return true;
}

void Completion::shift() {
    const int64_t n_keep = std::min(job_->request.n_keep, n_ctx_ / 2);
    const int64_t n_drop = (static_cast<int64_t>(tokens_.size()) - n_keep + 1) / 2;
    tokens_.erase(tokens_.begin() + n_keep, tokens_.begin() + n_keep + n_drop);
    usage_.n_shifted += n_drop;
    sequence_.truncate(n_keep);
}

void Completion::finish(Finish why, Error error) {
    const std::string rest(stops_.push(detokenizer_.flush()));
    top_.clear();
    emit(-1, rest);
    emit(-1, stops_.flush());
    if (first_token_at_ > 0) usage_.decode_s = steady_seconds() - first_token_at_;
    if (job_->listener.on_finish)
        job_->listener.on_finish({index_, why, stops_.hit(), std::move(error), chain_.seed(), usage_});
    job_->n_open.fetch_sub(1);
    job_->n_open.notify_all();
}

}  // namespace tessera::engine
