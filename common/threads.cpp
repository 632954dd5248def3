// The pool's protocol. A worker takes units by lowering `remaining`, and may read the job only while it
// holds one: the run cannot end, and the job cannot change, before that unit is reported in `pending`. A
// worker that comes late therefore finds nothing to take, or joins whatever run is then current; it can never
// mix two runs. A run needs nobody but its caller, so workers that the system leaves asleep cost no waiting.
#include "common/threads.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>
#include <vector>

#include "common/cpu.h"
#include "common/expected.h"

namespace tessera {

namespace {

// Two 64-byte lines: processors fetch lines in pairs, and some have 128-byte lines.
constexpr size_t kCacheLine = 128;
constexpr std::chrono::microseconds kSpinTime(50);  // the gap between two phases of a forward pass is shorter
constexpr int kYields = 16;
// A range is this part of a thread's share in the units that are left: one that starts late or is slow still
// finds some, and the others do not wait for it long.
constexpr int64_t kRangesPerShare = 2;

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Waits actively until ready(); false when it is time to sleep.
template <class Ready>
bool spin_until(Ready&& ready, bool spin) {
    if (spin) {
        const auto start = std::chrono::steady_clock::now();
        do {
            for (int i = 0; i < 32; i++) {
                if (ready()) return true;
                pause_briefly();
            }
        } while (std::chrono::steady_clock::now() - start < kSpinTime);
    }
    for (int i = 0; i < kYields; i++) {
        if (ready()) return true;
        sched_yield();
    }
    return ready();
}

}  // namespace

struct ThreadPool::State {
    // The job: written by the caller between runs, read by holders of a unit.
    RangeFn fn = nullptr;
    void* context = nullptr;
    const std::atomic<bool>* abort = nullptr;
    int64_t n_units = 0;

    // Units that nobody has taken yet, times two; plus one where they are taken in ranges. In one word, since
    // how many to take must belong to the run that they are taken from.
    alignas(kCacheLine) std::atomic<int64_t> remaining{0};
    alignas(kCacheLine) std::atomic<int64_t> pending{0};      // units not yet reported as done
    alignas(kCacheLine) std::atomic<uint32_t> generation{0};  // raised by every run; idle workers sleep on it
    alignas(kCacheLine) std::atomic<uint32_t> finished{
        0};  // raised after pending fell to 0; the caller sleeps on it
    alignas(kCacheLine) std::atomic<bool> running{false};
    std::atomic<bool> stop{false};
    bool spin = true;
    int64_t n_ranges = 1;  // that what is left is thought to be cut into
    std::vector<std::thread> threads;

    // Takes units until none is left; returns how many this thread has to report.
    int64_t work(int worker) {
        int64_t n_done = 0;
        int64_t word = remaining.load(std::memory_order_relaxed);
        while (word > 1) {
            const int64_t left = word / 2;
            const int64_t n = word % 2 == 0 ? 1 : std::max<int64_t>(1, left / n_ranges);
            if (!remaining.compare_exchange_weak(word, word - 2 * n, std::memory_order_acquire,
                                                 std::memory_order_relaxed))
                continue;
            n_done += n;
            if (abort && abort->load(std::memory_order_relaxed)) {
                n_done += remaining.exchange(0, std::memory_order_relaxed) / 2;
                break;
            }
            const int64_t first = n_units - left;
            fn(context, first, first + n, worker);
            word = remaining.load(std::memory_order_relaxed);
        }
        return n_done;
    }

    // True for the thread that reports the run's last unit.
    bool report(int64_t n_done) {
        return n_done > 0 && pending.fetch_sub(n_done, std::memory_order_acq_rel) == n_done;
    }

    void worker_loop(int worker) {
        uint32_t seen = 0;
        for (;;) {
            const auto changed = [&] { return generation.load(std::memory_order_acquire) != seen; };
            if (!spin_until(changed, spin)) generation.wait(seen, std::memory_order_acquire);
            // Read before the work: a run that starts meanwhile is noticed at the next turn.
            seen = generation.load(std::memory_order_acquire);
            if (stop.load(std::memory_order_relaxed)) return;
            if (report(work(worker))) {
                finished.fetch_add(1);
                finished.notify_one();
            }
        }
    }

    void wait_until_done() {
        const auto done = [&] { return pending.load(std::memory_order_acquire) == 0; };
        if (spin_until(done, spin)) return;
        for (;;) {
            // `finished` may still rise for an earlier run; that only costs one more look at `pending`.
            const uint32_t before = finished.load();
            if (done()) return;
            finished.wait(before);
        }
    }

    void wake_workers() {
        generation.fetch_add(1);
        generation.notify_all();
    }
};

ThreadPool::ThreadPool(int n_threads)
    : state_(std::make_unique<State>()), n_threads_(std::clamp(n_threads, 1, kMaxThreads)) {
    const CpuTopology& topology = cpu_topology();
    // With more workers than processors a spinning thread keeps the one it waits for from running.
    state_->spin = n_threads_ <= topology.n_logical && (topology.quota == 0 || n_threads_ <= topology.quota);
    state_->n_ranges = kRangesPerShare * n_threads_;
    state_->threads.reserve(static_cast<size_t>(n_threads_ - 1));
    for (int worker = 1; worker < n_threads_; worker++) {
        try {
            state_->threads.emplace_back(&State::worker_loop, state_.get(), worker);
        } catch (const std::system_error&) {  // the system's thread limit: go on with those we have
            n_threads_ = worker;
        }
    }
}

ThreadPool::~ThreadPool() {
    state_->stop.store(true, std::memory_order_relaxed);
    state_->wake_workers();
    for (std::thread& thread : state_->threads) thread.join();
}

void ThreadPool::run_job(int64_t n_units, bool ranges, RangeFn fn, void* context) {
    State& state = *state_;
    TSR_CHECK(n_units >= 0);
    TSR_CHECK(!state.running.exchange(true, std::memory_order_relaxed));  // nested, or called by two threads
    if (n_threads_ == 1 || n_units <= 1) {
        const int64_t n = ranges ? n_units : 1;
        for (int64_t unit = 0; unit < n_units && !aborted(); unit += n) fn(context, unit, unit + n, 0);
    } else {
        state.fn = fn;
        state.context = context;
        state.abort = abort_;
        state.n_units = n_units;
        state.pending.store(n_units, std::memory_order_relaxed);
        state.remaining.store(2 * n_units + (ranges ? 1 : 0), std::memory_order_release);
        state.wake_workers();
        if (!state.report(state.work(0))) state.wait_until_done();
    }
    state.running.store(false, std::memory_order_relaxed);
}

}  // namespace tessera
