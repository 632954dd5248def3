#pragma once
// One completion in progress: its tokens, its pages in the KV cache, its sampler state and its text.
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "src/engine/embedding.h"
#include "src/engine/npu_phase.h"
#include "src/engine/request.h"
#include "src/grammar/matcher.h"
#include "src/kv/sequence.h"
#include "src/sample/chain.h"
#include "src/sample/string_ban.h"
#include "src/text/detokenizer.h"
#include "src/text/indent_stop.h"
#include "src/text/stop_strings.h"

namespace tessera::engine {

/// A request and the state shared by its completions.
struct Job {
    Request request;
    Listener listener;
    std::shared_ptr<grammar::MaskCache> masks;  // token masks of the request's grammar
    std::atomic<bool> cancelled{false};
    double submitted_at = 0;         // now_seconds() at submission
    uint64_t number = 0;             // ascending in order of submission
    bool prompt_cached = false;      // the prompt is in the prefix cache; used by the scheduler only
    std::atomic<int32_t> n_open{0};  // completions that have not finished

    bool past_deadline(double now) const {
        return request.deadline_s > 0 && now >= submitted_at + request.deadline_s;
    }
    /// Reports the end of one of its completions; once for each.
    void report_end(const Outcome& outcome) {
        if (listener.on_finish) listener.on_finish(outcome);
        n_open.fetch_sub(1);
        n_open.notify_all();
    }
};

/// Tokens that the model has not computed yet are pending: the whole prompt at first, then one at a time. A
/// sampled token becomes pending in commit_token().
class Completion {
  public:
    /// Errors: sampling parameters that do not fit the vocabulary.
    static Result<std::unique_ptr<Completion>> create(std::shared_ptr<Job> job, int32_t index,
                                                      const text::Tokenizer& tokenizer,
                                                      const kv::Pools& pools, int64_t n_ctx, int64_t n_embd);

    const Job& job() const { return *job_; }
    int32_t index() const { return index_; }
    std::span<const int32_t> tokens() const { return tokens_; }
    kv::Sequence& sequence() { return sequence_; }
    const kv::Sequence& sequence() const { return sequence_; }
    std::span<const int32_t> pending() const {
        return std::span(tokens_).subspan(static_cast<size_t>(sequence_.n_tok()));
    }
    /// Tokens at the front that belong to the prompt.
    int64_t n_prompt() const { return n_prompt_; }
    /// Phase of the next pending token.
    Phase phase() const { return sequence_.n_tok() < n_prompt_ ? Phase::Prefill : Phase::Decode; }
    bool decoding() const { return usage_.n_generated > 0 && pending().size() == 1; }
    /// Accumulator of the hidden states if the request is for an embedding; else null.
    EmbeddingSum* embedding() { return embedding_ ? &*embedding_ : nullptr; }
    /// Tokens at the front that need no computation if their keys and values are cached.
    std::span<const int32_t> skippable() const {
        return std::span(tokens_).first(embedding_ ? static_cast<size_t>(embedding_->n_done())
                                                   : tokens_.size() - 1);
    }

    /// Reports prefill progress to the listener.
    void report_prefill_progress() const;
    /// Samples a token from the logits [n_vocab] of the last token. Any thread.
    void sample(std::span<const float> logits);
    /// Appends the sampled token to the text and calls the listener. False if that ends the completion: call
    /// finish() with ended_by() next.
    bool commit_token();

    /// Context shift: drops the older half of the tokens behind n_keep; the rest has to be recomputed.
    void shift();
    /// Notes the admission with n_cached tokens of the prefix cache, a preemption, or that the prompt is
    /// cached.
    void admitted(int64_t n_cached);
    void preempted() { ++usage_.n_preempted; }
    void mark_prompt_cached() { job_->prompt_cached = true; }

    /// Reports the end to the listener. May be called once. For an embedding, EndOfGeneration means that all
    /// its states were added.
    void finish(Finish why);
    Finish ended_by() const { return ended_by_; }
    /// Generated tokens, whether sampled or forced by the grammar.
    int64_t n_generated() const { return usage_.n_generated; }
    /// Whether it may use the prefix cache. Even with no_prefix_cache it may for the pages of its own
    /// request: those of completion 0, and its own after a preemption.
    bool uses_prefix_cache() const {
        return !job_->request.no_prefix_cache || index_ > 0 || usage_.n_preempted > 0;
    }

  private:
    Completion(std::shared_ptr<Job> job, int32_t index, const text::Tokenizer& tokenizer,
               const kv::Pools& pools, sample::Chain chain);
    void rank(std::span<const float> logits);
    bool append(int32_t id);
    bool append_held(int32_t id);
    void roll_back(size_t n);
    void show(int32_t id);
    bool close_reasoning();
    bool append_forced();
    bool ends(Finish why);
    void emit(int32_t id, std::string_view text);

    std::shared_ptr<Job> job_;
    const text::Tokenizer* tokenizer_;
    int32_t index_;
    std::vector<int32_t> tokens_;  // prompt and generated tokens
    kv::Sequence sequence_;
    sample::Chain chain_;
    text::Detokenizer detokenizer_;
    text::StopStrings stops_;
    text::IndentStop indent_;
    std::optional<grammar::Matcher> matcher_;
    std::vector<uint64_t> allowed_;  // one bit per token
    std::optional<sample::StringBan> ban_;
    std::optional<ReasoningWatch> reasoning_;
    std::optional<EmbeddingSum> embedding_;
    std::vector<TokenProb> top_;  // the most probable tokens at the position of the next token to be shown
    struct Held {
        float log_p;
        std::vector<TokenProb> top;
    };
    std::deque<Held> held_;  // of tokens held back because they may begin a banned string
    float log_p_ = 0;
    int32_t drawn_ = -1;
    int64_t n_ctx_ = 0, n_prompt_ = 0;
    Usage usage_;
    double began_at_ = 0, first_token_at_ = 0;
    Finish ended_by_ = Finish::Failed;
    Error error_;
};

}  // namespace tessera::engine
