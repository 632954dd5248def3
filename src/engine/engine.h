#pragma once
// Many requests at once over one model: a queue, and a thread of its own that schedules and computes.
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "src/engine/constraints.h"
#include "src/engine/scheduler.h"

namespace tessera::engine {

/// A request that was taken. Outlives the engine if need be. Any thread.
class Ticket {
  public:
    Ticket(std::shared_ptr<Job> job, std::shared_ptr<PassControl> control)
        : job_(std::move(job)), control_(std::move(control)) {}

    /// Its completions end soon, with Finish::Cancelled, even while a long prompt is read.
    void cancel() {
        job_->cancelled.store(true);
        control_->interrupt();
    }
    bool done() const { return job_->n_open.load() == 0; }
    /// Returns when all completions have ended.
    void wait() const {
        for (int32_t n = job_->n_open.load(); n != 0; n = job_->n_open.load()) job_->n_open.wait(n);
    }

  private:
    std::shared_ptr<Job> job_;
    std::shared_ptr<PassControl> control_;
};

class Engine {
  public:
    /// `pool` outlives this and is used by no one else meanwhile. Errors: those of Scheduler::create.
    static Result<std::unique_ptr<Engine>> create(std::shared_ptr<const Model> model,
                                                  std::shared_ptr<const text::Tokenizer> tokenizer,
                                                  ThreadPool& pool, const EngineOptions& options);
    /// Cancels all that is open and waits for the end of the pass.
    ~Engine();
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Any thread. Errors: a field out of range; Busy when max_queue requests wait.
    Result<Ticket> submit(Request request, Listener listener);

    /// As of the end of the last pass. Any thread.
    EngineStats stats() const;
    int64_t n_ctx() const { return scheduler_->n_ctx(); }
    /// Bytes of the cache.
    uint64_t kv_bytes() const { return scheduler_->kv_bytes(); }
    const Model& model() const { return scheduler_->model(); }

  private:
    Engine() = default;
    void run();
    void watch_deadlines();

    std::unique_ptr<Scheduler> scheduler_;  // of the thread, but for what is const
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
