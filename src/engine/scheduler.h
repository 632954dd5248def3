#pragma once
// Which tokens of which completions one pass computes. Continuous batching: each pass takes one token of
// every completion that is writing and, beside them, a piece of the prompts that are being read. Owns the
// cache; all of it runs on one thread, except control() and check().
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
    int64_t n_ctx = 0;      ///< positions of one completion; 0 = as SessionOptions
    uint64_t kv_bytes = 0;  ///< all completions' cache together, at least one n_ctx; 0 = max_running of them,
                            ///< or as many as the memory holds
    int64_t n_batch = 512;  ///< tokens of one pass, 1..4096
    int64_t max_running = 8;  ///< completions in one pass, 1..256 and at most n_batch
    int64_t max_queue = 256;  ///< requests that wait
    Type k_type = Type::F16, v_type = Type::F16;
    /// What computes parts of the passes; where it has keys and values, max_running is 1.
    std::shared_ptr<NpuModel> npu = nullptr;
};

/// Completions in one pass at most.
inline constexpr int64_t kMaxRunning = 256;

struct EngineStats {
    int64_t n_running = 0, n_waiting = 0;
    int64_t n_pages = 0, n_pages_free = 0, n_pages_cached = 0;  // cached: known to the prefix tree
    int64_t n_passes = 0, n_aborted_passes = 0, n_preemptions = 0;
    int64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;
    double forward_s = 0, sample_s = 0, other_s = 0;  // of passes: the model's part, drawing, and the rest
};

/// What other threads may touch while a pass runs.
struct PassControl {
    std::atomic<bool> abort{false};

    /// Ends the pass that runs at its next verb, unless it is short or repeats one that was ended: it is then
    /// repeated without those who are no longer wanted. To be called after they were marked so.
    void interrupt() { abort.store(true); }
};

class Scheduler {
  public:
    /// `pool` outlives this. Errors: options out of range, no memory for a named buffer.
    static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const text::Tokenizer> tokenizer,
                                                     ThreadPool& pool, const EngineOptions& options);
    ~Scheduler();

    /// Whether a request can be served at all. The error names the field.
    Result<void> check(const Request& request) const;
    /// A checked request's completions wait from now on.
    void add(std::shared_ptr<Job> job);
    /// One pass. Does nothing when idle().
    void step();
    bool idle() const { return waiting_.empty() && running_.empty(); }
    /// Requests none of whose completions has begun.
    int64_t n_waiting_jobs() const;

    std::shared_ptr<PassControl> control() const { return control_; }
    EngineStats stats() const;
    int64_t n_ctx() const { return n_ctx_; }
    uint64_t kv_bytes() const {
        return static_cast<uint64_t>(pages_->n_pages()) * pages_->layout().page_bytes;
    }
    const Model& model() const { return *model_; }
    /// Forgets all texts that no completion uses.
    void clear_prefixes() { tree_->clear(); }

  private:
    using Queue = std::deque<std::unique_ptr<Completion>>;

    Scheduler();
    void remove_cancelled(Queue& queue, bool are_running);
    void admit();
    bool admit_one(std::unique_ptr<Completion>& next);
    std::span<const int32_t> cached_prefix(const Completion& one) const;
    void plan();
    bool evict(Completion& wanting, int64_t n_tok);
    void preempt(size_t index);
    void keep_on_device(int64_t n_more);
    bool splits_phases() const;
    Phase next_phase() const;
    std::span<const int32_t> publishable_prefix(const Completion& one, int64_t n_tok) const;
    bool compute();
    void take_states();
    void sample_and_commit();
    size_t index_of(const Completion* running) const;
    void finish(size_t index, Finish why);

    std::shared_ptr<const Model> model_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    std::unique_ptr<NpuSession> npu_;
    std::vector<int32_t> on_device_;  // tokens whose keys and values the device has
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::PrefixTree> tree_;
    Activations activations_;
    std::shared_ptr<PassControl> control_ = std::make_shared<PassControl>();

    Queue waiting_, running_;  // both by rank
    PrefillBudget prefill_budget_;
    int64_t n_ctx_ = 0, n_batch_ = 0, max_running_ = 0;
    EngineStats stats_;

    bool was_interrupted_ = false;  // the last pass

    // The pass in work, and the phase of all its tokens where the two are apart.
    Phase phase_ = Phase::Prefill;
    struct Row {
        Completion* completion;
        int64_t n_tok;
    };
    std::vector<Row> rows_;
    std::vector<int32_t> tokens_, outputs_;
    std::vector<Segment> segments_;  // [n_layer_groups, rows]
    std::vector<Completion*>
        sampling_rows_;                   // completion of each output row; those of embeddings come behind
    ActBuffer hidden_{.name = "hidden"};  // states of the output rows, where some are wanted
    std::vector<float> hidden_rows_;
};

}  // namespace tessera::engine
