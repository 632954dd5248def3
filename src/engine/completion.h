#pragma once
// One completion on its way: its tokens, its place in the cache, its sampling state and its text.
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "common/clock.h"
#include "src/engine/embedding.h"
#include "src/engine/indent_stop.h"
#include "src/engine/npu_phase.h"
#include "src/engine/request.h"
#include "src/engine/stop_strings.h"
#include "src/grammar/matcher.h"
#include "src/kv/sequence.h"
#include "src/sample/chain.h"
#include "src/sample/string_ban.h"
#include "src/text/detokenizer.h"

namespace tessera::engine {

/// A request and what its completions share.
struct Job {
    Request request;
    Listener listener;
    std::shared_ptr<grammar::MaskCache> masks;  // of the request's grammar
    std::atomic<bool> cancelled{false};
    double submitted_at = 0;         // seconds of the steady clock
    uint64_t number = 0;             // in order of submission
    bool prompt_cached = false;      // to the prefix tree; the scheduler's
    std::atomic<int32_t> n_open{0};  // completions that have not ended

    bool past_deadline(double now) const {
        return request.deadline_s > 0 && now >= submitted_at + request.deadline_s;
    }
};

/// Tokens the model has not seen yet are pending: the whole prompt at first, later one at a time. The sampled
/// token comes back in through commit_token() and nowhere else.
class Completion {
  public:
    /// Errors: sampling parameters that do not fit the vocabulary.
    static Result<std::unique_ptr<Completion>> create(std::shared_ptr<Job> job, int32_t index,
                                                      const text::Tokenizer& tokenizer, kv::PagePool& pages,
                                                      int64_t n_ctx, int64_t n_embd);

    const Job& job() const { return *job_; }
    int32_t index() const { return index_; }
    std::span<const int32_t> tokens() const { return tokens_; }
    kv::Sequence& sequence() { return sequence_; }
    std::span<const int32_t> pending() const {
        return std::span(tokens_).subspan(static_cast<size_t>(sequence_.n_tok()));
    }
    /// Tokens at the front that were given, not written.
    int64_t n_prompt() const { return n_prompt_; }
    /// Of the token that is computed next.
    Phase phase() const { return sequence_.n_tok() < n_prompt_ ? Phase::Prefill : Phase::Decode; }
    bool decoding() const { return usage_.n_generated > 0 && pending().size() == 1; }
    /// Where no text is written, what takes the states of its tokens; else null.
    EmbeddingSum* embedding() { return embedding_ ? &*embedding_ : nullptr; }
    /// Tokens at the front that need not be computed where their keys and values are known.
    std::span<const int32_t> skippable() const {
        return std::span(tokens_).first(embedding_ ? static_cast<size_t>(embedding_->n_done())
                                                   : tokens_.size() - 1);
    }

    /// Tells the listener how far the prompt is.
    void report_prefill_progress() const;
    /// Draws from the logits [n_vocab] of its last token. Any thread.
    void sample(std::span<const float> logits);
    /// Makes the drawn token part of the text and tells the listener. False when that ended the completion:
    /// finish() with ended_by() is next.
    bool commit_token();

    /// Forgets the older half of what is behind n_keep; its keys and values are to be computed anew.
    void shift();
    /// What it is about to wait for or begin.
    void admitted(int64_t n_cached);
    void preempted() { ++usage_.n_preempted; }
    void mark_prompt_cached() { job_->prompt_cached = true; }

    /// Tells the listener of the end; EndOfGeneration of an embedding is that all its states have come. Once.
    void finish(Finish why);
    Finish ended_by() const { return ended_by_; }
    /// Tokens written, be they drawn or forced by the grammar.
    int64_t n_generated() const { return usage_.n_generated; }
    /// Whether what others made known of its prompt is of use to it. Its own is, when it gave way or has
    /// siblings.
    bool uses_prefix_cache() const {
        return !job_->request.no_prefix_cache || index_ > 0 || usage_.n_preempted > 0;
    }

  private:
    Completion(std::shared_ptr<Job> job, int32_t index, const text::Tokenizer& tokenizer, kv::PagePool& pages,
               sample::Chain chain);
    void rank(std::span<const float> logits);
    bool append(int32_t id);
    bool append_held(int32_t id);
    void go_back(size_t n);
    void show(int32_t id);
    bool close_reasoning();
    bool append_forced();
    bool ends(Finish why);
    void emit(int32_t id, std::string_view text);

    std::shared_ptr<Job> job_;
    const text::Tokenizer* tokenizer_;
    int32_t index_;
    std::vector<int32_t> tokens_;  // prompt and what came after
    kv::Sequence sequence_;
    sample::Chain chain_;
    text::Detokenizer detokenizer_;
    StopStrings stops_;
    IndentStop indent_;
    std::optional<grammar::Matcher> matcher_;
    std::vector<uint64_t> allowed_;  // a bit for each token
    std::optional<sample::StringBan> ban_;
    std::optional<ReasoningWatch> reasoning_;
    std::optional<EmbeddingSum> embedding_;
    std::vector<TokenProb> top_;  // the likeliest where the token stands that is shown next
    struct Held {
        float log_p;
        std::vector<TokenProb> top;
    };
    std::deque<Held> held_;  // of the tokens that the ban holds back
    float log_p_ = 0;
    int32_t drawn_ = -1;
    int64_t n_ctx_ = 0, n_prompt_ = 0;
    Usage usage_;
    double began_at_ = 0, first_token_at_ = 0;
    Finish ended_by_ = Finish::Failed;
    Error error_;
};

}  // namespace tessera::engine
