#pragma once
// Chooses the tokens of each forward pass (pass.h). Continuous batching with chunked prefill: a pass computes
// one token of every completion that is decoding and, next to them, a chunk of pending prompts. Owns the KV
// cache. Runs on one thread, except for control() and check().
#include <deque>
#include <memory>
#include <vector>

#include "common/threads.h"
#include "src/engine/completion.h"
#include "src/engine/npu_policy.h"
#include "src/engine/pass.h"
#include "src/engine/prefill_budget.h"
#include "src/engine/session.h"
#include "src/kv/prefix_tree.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

struct EngineOptions {
    int64_t n_ctx = 0;        ///< positions of one completion; 0 = default of SessionOptions
    uint64_t kv_bytes = 0;    ///< KV cache and recurrent state of all completions together, at least those of
                              ///< one n_ctx; 0 = max_running of them, or as many as fit in memory
    int64_t n_batch = 512;    ///< tokens of one pass, 1..4096
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
    int64_t n_pages = 0, n_pages_free = 0, n_pages_cached = 0;     // cached: in the prefix cache
    int64_t n_states = 0, n_states_free = 0, n_states_cached = 0;  // slots of recurrent state
    int64_t n_passes = 0, n_aborted_passes = 0, n_preemptions = 0;
    int64_t n_prompt_tokens = 0, n_cached_tokens = 0, n_generated_tokens = 0;
    double forward_s = 0, sample_s = 0, other_s = 0;  // time of passes: model, sampling, other
};

class Scheduler {
  public:
    /// `pool` must outlive this. Errors: options out of range, out of memory for a named buffer.
    static Result<std::unique_ptr<Scheduler>> create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const text::Tokenizer> tokenizer,
                                                     ThreadPool& pool, const EngineOptions& options);
    ~Scheduler();

    /// Checks that a request can be served. Errors name the field. Any thread.
    Result<void> check(const Request& request) const {
        return check_request(request, n_ctx_, model_->hparams().n_vocab);
    }
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
    /// Bytes of the KV cache and of recurrent state.
    uint64_t kv_bytes() const {
        return static_cast<uint64_t>(pages_->n_pages()) * pages_->layout().page_bytes +
               kv::StatePool::bytes(states_->layout(), states_->n_slots());
    }
    const Model& model() const { return *model_; }
    /// Empties the prefix cache, except for pages that completions use.
    void clear_prefixes() { tree_->clear(); }

    /// The backend of the passes. compute_through() interposes another one, as in a Session.
    CpuBackend& backend() { return *backend_; }
    const kv::StateLayout& state_layout() const { return states_->layout(); }
    void compute_through(Backend* front) { front_ = front; }

  private:
    using Queue = std::deque<std::unique_ptr<Completion>>;

    Scheduler();
    void remove_cancelled(Queue& queue, bool are_running);
    void admit();
    Queue::iterator next_waiting();
    bool admit_one(Completion& one);
    void publish(Completion& one, std::span<const int32_t> prefix, bool is_prompt = false);
    bool drop_checkpoint(const Completion& for_one, int64_t n_tok);
    bool free_pages_for(Completion& one, int64_t n_tok);
    std::unique_ptr<Completion> remove_running(size_t index, bool publishes);
    void preempt(size_t index);
    void plan(Pass& pass);
    void submit(Pass& pass);
    void complete(Pass& pass);
    void advance(const Pass::Chunk& chunk);
    void add_hidden_states(const Pass& pass);
    void sample_and_commit(const Pass& pass);
    size_t index_of(const Completion* running) const;
    void finish(size_t index, Finish why);

    std::shared_ptr<const Model> model_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    ThreadPool* pool_ = nullptr;
    std::unique_ptr<CpuBackend> backend_;
    Backend* front_ = nullptr;
    NpuPolicy npu_;
    std::unique_ptr<kv::PagePool> pages_;
    std::unique_ptr<kv::StatePool> states_;
    std::unique_ptr<kv::PrefixTree> tree_;
    std::shared_ptr<PassControl> control_ = std::make_shared<PassControl>();

    Queue waiting_, running_;  // both ordered by rank
    PrefillBudget prefill_budget_;
    int64_t n_ctx_ = 0, n_batch_ = 0, max_running_ = 0;
    EngineStats stats_;

    bool last_was_aborted_ = false;  // the last pass; the next one is short and not aborted
    Pass pass_;                      // the one in flight
};

}  // namespace tessera::engine
