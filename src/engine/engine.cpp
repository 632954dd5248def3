// Two threads: one computes; the other wakes only while requests have deadlines, and aborts a long pass when
// a deadline expires. One mutex guards all state shared with callers; it is never held during a pass.
#include "src/engine/engine.h"

#include <algorithm>

namespace tessera::engine {

namespace {

/// Polling interval for deadlines; a pass is aborted at its next operation.
constexpr auto kWatchEvery = std::chrono::milliseconds(20);

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(std::shared_ptr<const Model> model,
                                               std::shared_ptr<const text::Tokenizer> tokenizer,
                                               ThreadPool& pool, const EngineOptions& options) {
    TSR_TRY_VOID(check_range("queue", options.max_queue, 1, 1 << 20));
    std::unique_ptr<Engine> out(new Engine());
    out->constraints_ = std::make_unique<Constraints>(tokenizer);
    TSR_TRY(out->scheduler_, Scheduler::create(std::move(model), std::move(tokenizer), pool, options));
    out->control_ = out->scheduler_->control();
    out->max_queue_ = options.max_queue;
    out->stats_ = out->scheduler_->stats();
    out->thread_ = std::thread([engine = out.get()] { engine->run(); });
    out->watcher_ = std::thread([engine = out.get()] { engine->watch_deadlines(); });
    return out;
}

Engine::~Engine() {
    if (!thread_.joinable()) return;  // create() failed
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    control_->interrupt();
    changed_.notify_all();
    thread_.join();
    watcher_.join();
}

Result<Ticket> Engine::submit(Request request, Listener listener) {
    TSR_TRY_VOID(scheduler_->check(request));
    auto job = std::make_shared<Job>();
    if (request.grammar) {
        TSR_TRY(job->masks, constraints_->masks(request.grammar));
    }
    job->request = std::move(request);
    job->listener = std::move(listener);
    job->submitted_at = now_seconds();
    job->n_open = job->request.n;
    {
        const std::lock_guard lock(mutex_);
        const auto n_waiting = n_waiting_jobs_ + static_cast<int64_t>(incoming_.size());
        if (n_waiting >= max_queue_)
            return fail(ErrorCode::Busy, "queue: expected fewer than %lld waiting requests, found %lld",
                        static_cast<long long>(max_queue_), static_cast<long long>(n_waiting));
        job->number = n_submitted_++;
        if (job->request.deadline_s > 0) timed_.push_back(job);
        incoming_.push_back(job);
    }
    changed_.notify_all();
    return Ticket(std::move(job), control_);
}

EngineStats Engine::stats() const {
    const std::lock_guard lock(mutex_);
    return stats_;
}

void Engine::run() {
    std::vector<std::shared_ptr<Job>> taken;
    for (;;) {
        {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return stopping_ || !incoming_.empty() || !scheduler_->idle(); });
            if (stopping_) break;
            taken.swap(incoming_);
        }
        for (auto& job : taken) scheduler_->add(std::move(job));
        taken.clear();
        scheduler_->step();
        const std::lock_guard lock(mutex_);
        stats_ = scheduler_->stats();
        n_waiting_jobs_ = scheduler_->n_waiting_jobs();
    }
    // Requests that arrived in the meantime are cancelled by the scheduler's destructor, like the others.
    for (auto& job : incoming_) scheduler_->add(std::move(job));
    scheduler_.reset();
}

void Engine::watch_deadlines() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
        if (timed_.empty())
            changed_.wait(lock, [this] { return stopping_ || !timed_.empty(); });
        else
            changed_.wait_for(lock, kWatchEvery, [this] { return stopping_; });
        const double now = now_seconds();
        const auto over = [&](const std::weak_ptr<Job>& weak) {
            const auto job = weak.lock();
            if (!job || job->n_open.load() == 0) return true;
            if (!job->past_deadline(now)) return false;
            if (!stopping_) control_->interrupt();
            return true;
        };
        std::erase_if(timed_, over);
    }
}

}  // namespace tessera::engine
