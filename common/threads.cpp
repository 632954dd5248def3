// The pool's protocol. A worker takes units from `remaining` or a share, and may read the job only while it
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
// Longer than the gap between two phases of a forward pass, even if the other thread is interrupted
// meanwhile: to be woken takes longer still.
constexpr std::chrono::microseconds kSpinTime(250);
constexpr int kYields = 16;
// A range is half of what is left of a share: whoever is done before its thread finds the rest. Where starts
// cost as much as units, a thread takes two thirds of its own that is soon done, which has it start half as
// often (docs/performance-notes.md, "Fewer starts").
constexpr uint32_t kSoonDone = 64;
constexpr uint32_t range_units(uint32_t n_left, bool few) {
    return few && n_left <= kSoonDone ? n_left - n_left / 3 : std::max(n_left / 2, 1U);
}

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/// What a thread asks for while it waits. Written and read by that thread alone.
struct alignas(kCacheLine) WaitFetch {
    Streams streams;
    int64_t at = 0;  // so many bytes of each were asked for

    /// Asks for the next two lines of each; false when that was done.
    bool step() {
        if (!streams.first || at >= ThreadPool::kFetchedAhead) return false;
        for (int i = 0; i < streams.n; i++)
            for (const int64_t line : {0, 64}) fetch_line(i * streams.apart + at + line);
        at += 128;
        return true;
    }

  private:
    // A number, since there may be nothing to point to.
    void fetch_line(int64_t behind_first) const {
        const auto line = reinterpret_cast<uintptr_t>(streams.first) + static_cast<uintptr_t>(behind_first);
        __builtin_prefetch(reinterpret_cast<const void*>(line), 0, 2);
    }
};

// Waits actively until ready(); false when it is time to sleep.
template <class Ready>
bool spin_until(Ready&& ready, bool spin, WaitFetch& meanwhile) {
    if (spin) {
        const auto start = std::chrono::steady_clock::now();
        do {
            for (int i = 0; i < 32; i++) {
                if (ready()) return true;
                if (!meanwhile.step()) pause_briefly();
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

/// Units of a run that are not taken in order: each thread begins with a share of its own, so that it goes
/// through memory in one direction while others are far away, and then helps the others from their ends. Both
/// bounds are one word, since how many to take must belong to the run that they are taken from.
class alignas(kCacheLine) UnitShare {
  public:
    struct Range {
        uint32_t first, end;
        int64_t size() const { return int64_t{end} - first; }
    };

    void put(Range range) { word_.store(word_of(range), std::memory_order_release); }
    /// Units from the front for the share's own thread, from the back for others; empty when nothing is left.
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
    /// Takes all; returns how many.
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
    // Late workers may use another run's: it sets speed, never which units run.
    std::atomic<Schedule> schedule{Schedule::StaticSteal};

    // Units that nobody has taken yet, of a run where they are taken in order.
    alignas(kCacheLine) std::atomic<int64_t> remaining{0};
    std::vector<UnitShare> shares;                            // a thread's each, of other runs
    std::vector<WaitFetch> fetches;                           // a thread's each
    alignas(kCacheLine) std::atomic<int64_t> pending{0};      // units not yet reported as done
    alignas(kCacheLine) std::atomic<uint32_t> generation{0};  // raised by every run; idle workers sleep on it
    std::atomic<bool> stop{false};
    alignas(kCacheLine) std::atomic<uint32_t> finished{
        0};  // raised after pending fell to 0; the caller sleeps on it
    alignas(kCacheLine) std::atomic<bool> running{false};  // of the caller alone

    bool aborted() const { return abort && abort->load(std::memory_order_relaxed); }

    // Takes units until none is left; returns how many this thread has to report.
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
            if (!spin_until(changed, spin, fetches[static_cast<size_t>(worker)]))
                generation.wait(seen, std::memory_order_acquire);
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
        if (spin_until(done, spin, fetches[0])) return;
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
    state_->shares = std::vector<UnitShare>(static_cast<size_t>(n_threads_));
    state_->fetches = std::vector<WaitFetch>(static_cast<size_t>(n_threads_));
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

void ThreadPool::fetch_while_waiting(int worker, const Streams& soon) {
    state_->fetches[static_cast<size_t>(worker)] = {soon, 0};
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
