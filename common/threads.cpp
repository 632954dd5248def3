// The pool's protocol. A worker takes units from `remaining` or a share, and may read the job only while it
// holds one: the run cannot end, and the job cannot change, before that unit is reported in `pending`. A late
// worker therefore finds nothing to take, or joins whichever run is then current; it can never mix two runs.
// A run needs only its caller, so workers that the system leaves asleep delay nothing.
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

// Two 64-byte cache lines: processors prefetch lines in pairs, and some have 128-byte lines.
constexpr size_t kCacheLine = 128;
// Longer than the gap between two parallel regions of a forward pass, even if another thread is interrupted
// meanwhile; waking a sleeping thread takes longer still (50 us lost up to 0.6 %).
constexpr std::chrono::microseconds kSpinTime(250);
constexpr int kYields = 16;
// A range is half of the units left in a share, so that an idle thread finds the rest to steal. Coarse: two
// thirds of the thread's own share once that is short, which halves the number of starts.
constexpr uint32_t kShortShare = 64;
constexpr uint32_t range_units(uint32_t n_left, bool coarse) {
    return coarse && n_left <= kShortShare ? n_left - n_left / 3 : std::max(n_left / 2, 1U);
}

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// Spins until ready(); false when it is time to sleep.
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

/// A thread's static share of a run's units. The thread goes through it in one direction, and others steal
/// from its tail. Both bounds are in one word, so that units are taken from the run that the bounds were read
/// for.
class alignas(kCacheLine) UnitShare {
  public:
    struct Range {
        uint32_t first, end;
        int64_t size() const { return int64_t{end} - first; }
    };

    void put(Range range) { word_.store(word_of(range), std::memory_order_release); }
    /// Units from the front for the share's own thread, from the tail for others; empty when none are left.
    Range take(bool front, Schedule schedule) {
        uint64_t word = word_.load(std::memory_order_relaxed);
        for (;;) {
            const Range left = range_of(word);
            if (left.first >= left.end) return {0, 0};
            const uint32_t n_left = left.end - left.first;
            const uint32_t n = schedule == Schedule::StaticSteal
                                   ? 1
                                   : range_units(n_left, front && schedule == Schedule::GuidedCoarse);
            const Range taken = front ? Range{left.first, left.first + n} : Range{left.end - n, left.end};
            const Range rest = front ? Range{taken.end, left.end} : Range{left.first, taken.first};
            if (word_.compare_exchange_weak(word, word_of(rest), std::memory_order_acquire,
                                            std::memory_order_relaxed))
                return taken;
        }
    }
    /// Takes all units; returns their number.
    int64_t drop() { return range_of(word_.exchange(0, std::memory_order_relaxed)).size(); }

  private:
    static uint64_t word_of(Range r) { return uint64_t{r.first} << 32 | r.end; }
    static Range range_of(uint64_t word) {
        return {static_cast<uint32_t>(word >> 32), static_cast<uint32_t>(word)};
    }
    std::atomic<uint64_t> word_{0};
};

struct ThreadPool::State {
    bool spin = true;
    std::vector<std::thread> threads;

    // The job: written by the caller between runs, read by holders of a unit.
    alignas(kCacheLine) RangeFn fn = nullptr;
    void* context = nullptr;
    const std::atomic<bool>* abort = nullptr;
    int64_t n_units = 0;
    // A late worker may see another run's schedule: it sets speed, never which units run.
    std::atomic<Schedule> schedule{Schedule::StaticSteal};

    // Units not yet taken, of a run with Schedule::Dynamic.
    alignas(kCacheLine) std::atomic<int64_t> remaining{0};
    std::vector<UnitShare> shares;                            // one a thread, for the other schedules
    alignas(kCacheLine) std::atomic<int64_t> pending{0};      // units not yet reported as done
    alignas(kCacheLine) std::atomic<uint32_t> generation{0};  // raised by every run; idle workers sleep on it
    std::atomic<bool> stop{false};
    alignas(kCacheLine) std::atomic<uint32_t> finished{
        0};  // raised after pending fell to 0; the caller sleeps on it
    alignas(kCacheLine) std::atomic<bool> running{false};  // of the caller alone

    bool aborted() const { return abort && abort->load(std::memory_order_relaxed); }

    // Takes units until none are left; returns the number that this thread has to report.
    int64_t work(int worker) { return work_shares(worker) + work_units(worker); }

    int64_t work_units(int worker) {
        int64_t n_done = 0;
        int64_t left = remaining.load(std::memory_order_relaxed);
        while (left > 0) {
            if (!remaining.compare_exchange_weak(left, left - 1, std::memory_order_acquire,
                                                 std::memory_order_relaxed))
                continue;
            n_done++;
            if (aborted()) return n_done + remaining.exchange(0, std::memory_order_relaxed);
            const int64_t unit = n_units - left;
            fn(context, unit, unit + 1, worker);
            left = remaining.load(std::memory_order_relaxed);
        }
        return n_done;
    }

    int64_t work_shares(int worker) {
        int64_t n_done = 0;
        const size_t own = static_cast<size_t>(worker), n_shares = shares.size();
        const Schedule how = schedule.load(std::memory_order_relaxed);
        for (size_t i = 0; i < n_shares; i++) {
            UnitShare& share = shares[(own + i) % n_shares];
            for (;;) {
                const UnitShare::Range range = share.take(i == 0, how);
                if (range.size() == 0) break;
                n_done += range.size();
                if (aborted()) {
                    for (UnitShare& rest : shares) n_done += rest.drop();
                    return n_done;
                }
                fn(context, range.first, range.end, worker);
            }
        }
        return n_done;
    }

    void share_out(int64_t n_units_now, int n_threads) {
        TSR_CHECK(n_units_now <= UINT32_MAX);
        const auto bound = [&](int64_t i) { return static_cast<uint32_t>(n_units_now * i / n_threads); };
        for (int i = 0; i < n_threads; i++) shares[static_cast<size_t>(i)].put({bound(i), bound(i + 1)});
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
    // With more workers than processors a spinning thread would keep the thread that it waits for from
    // running.
    state_->spin = n_threads_ <= topology.n_logical && (topology.quota == 0 || n_threads_ <= topology.quota);
    state_->shares = std::vector<UnitShare>(static_cast<size_t>(n_threads_));
    state_->threads.reserve(static_cast<size_t>(n_threads_ - 1));
    for (int worker = 1; worker < n_threads_; worker++) {
        try {
            state_->threads.emplace_back(&State::worker_loop, state_.get(), worker);
        } catch (const std::system_error&) {  // the system's thread limit: continue with fewer
            n_threads_ = worker;
        }
    }
}

ThreadPool::~ThreadPool() {
    state_->stop.store(true, std::memory_order_relaxed);
    state_->wake_workers();
    for (std::thread& thread : state_->threads) thread.join();
}

void ThreadPool::run_job(int64_t n_units, Schedule schedule, RangeFn fn, void* context) {
    State& state = *state_;
    TSR_CHECK(n_units >= 0);
    TSR_CHECK(!state.running.exchange(true, std::memory_order_relaxed));  // nested, or called by two threads
    if (n_threads_ == 1 || n_units <= 1) {
        const bool ranges = schedule == Schedule::Guided || schedule == Schedule::GuidedCoarse;
        const int64_t n = ranges ? n_units : 1;
        for (int64_t unit = 0; unit < n_units && !aborted(); unit += n) fn(context, unit, unit + n, 0);
    } else {
        state.fn = fn;
        state.context = context;
        state.abort = abort_;
        state.n_units = n_units;
        state.pending.store(n_units, std::memory_order_relaxed);
        if (schedule == Schedule::Dynamic) {
            state.remaining.store(n_units, std::memory_order_release);
        } else {
            state.schedule.store(schedule, std::memory_order_relaxed);
            state.share_out(n_units, n_threads_);
        }
        state.wake_workers();
        if (!state.report(state.work(0))) state.wait_until_done();
    }
    state.running.store(false, std::memory_order_relaxed);
}

}  // namespace tessera
