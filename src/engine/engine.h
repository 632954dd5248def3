#pragma once
// Serves many requests with one model: a queue, and a thread that schedules and computes.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "src/engine/constraints.h"
#include "src/engine/scheduler.h"

namespace tessera::engine {

/// Handle of a submitted request. May outlive the engine. Any thread.
class Ticket {
  public:
    Ticket(std::shared_ptr<Job> job, std::shared_ptr<PassControl> control)
        : job_(std::move(job)), control_(std::move(control)) {}

    /// Ends its completions with Finish::Cancelled soon, even during a long prefill.
    void cancel() {
        job_->cancelled.store(true);
        control_->interrupt();
    }
    bool done() const { return job_->n_open.load() == 0; }
    /// Blocks until all completions have finished.
    void wait() const {
        for (int32_t n = job_->n_open.load(); n != 0; n = job_->n_open.load()) job_->n_open.wait(n);
    }

  private:
    std::shared_ptr<Job> job_;
    std::shared_ptr<PassControl> control_;
};

class Engine {
  public:
    /// `pool` must outlive this and must have no other users. Errors: those of Scheduler::create.
    static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                  std::shared_ptr<const text::Tokenizer> tokenizer,
                                                  ThreadPool& pool, const EngineOptions& options);
    /// Cancels all requests and waits for the end of the pass.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Queues a request. Any thread. Errors: a field out of range; Busy if max_queue requests are waiting.
    Result<Ticket> submit(Request request, Listener listener);

    /// Statistics as of the end of the last pass. Any thread.
    EngineStats stats() const;
    int64_t n_ctx() const { return scheduler_->n_ctx(); }
    /// Bytes of the KV cache.
    uint64_t kv_bytes() const { return scheduler_->kv_bytes(); }
    const Model& model() const { return scheduler_->model(); }

  private:
    Engine() = default;
    void run();
    void watch_deadlines();

    std::unique_ptr<Scheduler> scheduler_;  // used by the engine's thread only, except for const members
    std::shared_ptr<PassControl> control_;
    std::unique_ptr<Constraints> constraints_;
    int64_t max_queue_ = 0;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::shared_ptr<Job>> incoming_;
    std::vector<std::weak_ptr<Job>> timed_;  // jobs with a deadline
    EngineStats stats_;
    int64_t n_waiting_jobs_ = 0;
    uint64_t n_submitted_ = 0;
    bool stopping_ = false;

    std::thread thread_, watcher_;
};

}  // namespace tessera::engine
