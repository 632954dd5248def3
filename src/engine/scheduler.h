#pragma once
// Chooses the tokens of each forward pass. Continuous batching with chunked prefill: a pass computes one
// token of every completion that is decoding and, next to them, a chunk of pending prompts. Owns the KV
// cache. Runs on one thread, except for control() and check().
#include <deque>
#include <memory>
#include <vector>

#include "common/threads.h"
#include "src/engine/completion.h"
#include "src/engine/prefill_budget.h"
#include "src/engine/session.h"
#include "src/kv/prefix_tree.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

struct EngineOptions {
    int64_t n_ctx = 0;      ///< positions of one completion; 0 = default of SessionOptions
    uint64_t kv_bytes = 0;  ///< KV cache of all completions together, at least one n_ctx; 0 = max_running of
                            ///< them, or as many as fit in memory
    int64_t n_batch = 512;  ///< tokens of one pass, 1..4096
    int64_t max_running = 8;  ///< completions in one pass, 1..256, at most n_batch
    int64_t max_queue = 256;  ///< waiting requests
    Type k_type = Type::F16, v_type = Type::F16;
    /// NPU that computes parts of the passes; if it has the KV cache, max_running must be 1.
    std::shared_ptr<NpuModel> npu = nullptr;
};

/// Upper limit of EngineOptions::max_running.
inline constexpr int64_t kMaxRunning = 256;

struct EngineStats {
    int64_t n_running = 0, n_waiting = 0;
    int64_t n_pages = 0, n_pages_free = 0, n_pages_cached = 0;  // cached: in the prefix cache
    int64_t n_passes = 0, n_aborted_passes = 0, n_preemptions = 0;
    int64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;
    double forward_s = 0, sample_s = 0, other_s = 0;  // time of passes: model, sampling, other
};

/// Access for other threads while a pass runs.
struct PassControl {
    std::atomic<bool> abort{false};

    /// Aborts the running pass at its next operation, so that it is repeated without cancelled requests; mark
    /// these before the call. Short passes, and passes that repeat an aborted one, are not aborted.
    void interrupt() { abort.store(true); }
};

class Scheduler {
  public:
    /// `pool` must outlive this. Errors: options out of range, out of memory for a named buffer.
    static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const text::Tokenizer> tokenizer,
                                                     ThreadPool& pool, const EngineOptions& options);
    ~Scheduler();

    /// Checks that a request can be served. Errors name the field.
    Result<void> check(const Request& request) const;
    /// Queues the completions of a checked request.
    void add(std::shared_ptr<Job> job);
    /// Computes one pass. Does nothing if idle().
    void step();
    bool idle() const { return waiting_.empty() && running_.empty(); }
    /// Requests without a started completion.
    int64_t n_waiting_jobs() const;

    std::shared_ptr<PassControl> control() const { return control_; }
    EngineStats stats() const;
    int64_t n_ctx() const { return n_ctx_; }
    uint64_t kv_bytes() const {
        return static_cast<uint64_t>(pages_->n_pages()) * pages_->layout().page_bytes;
    }
    const Model& model() const { return *model_; }
    /// Empties the prefix cache, except for pages that completions use.
    void clear_prefixes() { tree_->clear(); }

  private:
    using Queue = std::deque<std::unique_ptr<Completion>>;
    /// The next n_tok pending tokens of a completion.
    struct Row {
        Completion* completion;
        int64_t n_tok;
    };

    Scheduler();
    void remove_cancelled(Queue& queue, bool are_running);
    void admit();
    bool admit_one(std::unique_ptr<Completion>& next);
    std::span<const int32_t> cached_prefix(const Completion& one) const;
    void plan();
    bool free_pages_for(Completion& one, int64_t n_tok);
    void preempt(size_t index);
    void update_device_tokens(int64_t n_more);
    bool splits_phases() const;
    Phase next_phase() const;
    std::span<const int32_t> publishable_prefix(const Completion& one, int64_t n_tok) const;
    void gather_batch();
    void advance(const Row& row);
    bool compute();
    void add_hidden_states();
    void sample_and_commit();
    size_t index_of(const Completion* running) const;
    void finish(size_t index, Finish why);

    std::shared_ptr<const Model> model_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    std::unique_ptr<NpuSession> npu_;
    std::vector<int32_t> device_tokens_;  // tokens in the device's KV cache
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::PrefixTree> tree_;
    Activations activations_;
    std::shared_ptr<PassControl> control_ = std::make_shared<PassControl>();

    Queue waiting_, running_;  // both ordered by rank
    PrefillBudget prefill_budget_;
    int64_t n_ctx_ = 0, n_batch_ = 0, max_running_ = 0;
    EngineStats stats_;

    bool was_interrupted_ = false;  // the last pass was aborted

    // The current pass; phase_ is that of all its tokens if prefill and decode are split.
    Phase phase_ = Phase::Prefill;
    std::vector<Row> rows_;
    std::vector<int32_t> tokens_, outputs_;
    std::vector<Segment> segments_;           // [n_layer_groups, rows]
    std::vector<Completion*> sampling_rows_;  // completions of the output rows with logits, which come first
    ActBuffer hidden_{.name = "hidden"};      // [n_hidden, n_embd] in hidden_rows_, for embeddings
    std::vector<float> hidden_rows_;
};

}  // namespace tessera::engine
