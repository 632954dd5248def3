#pragma once
// The thread pool. Work is divided into units, which threads take as they become free; the caller is worker
// 0.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera {

/// How a run's units are assigned to threads, in OpenMP's words: one by one in rising order; statically with
/// work stealing, one by one or in shrinking ranges (guided), which are longer with GuidedCoarse.
enum class Schedule : uint8_t { Dynamic, StaticSteal, Guided, GuidedCoarse };

/// Workers wait by spinning (about 250 us), then yielding, then sleeping on a futex, so an idle pool costs
/// nothing and a busy machine is not starved. run() is called by one thread at a time.
class ThreadPool {
  public:
    /// n_threads >= 1 workers including the caller; at most kMaxThreads (clamped), and fewer where the system
    /// refuses to start more: n_threads() tells.
    explicit ThreadPool(int n_threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    static constexpr int kMaxThreads = 256;

    int n_threads() const { return n_threads_; }

    /// Calls fn(unit, worker) for every unit in [0, n_units), worker in [0, n_threads), and returns when all
    /// are done (their writes are visible to the caller). Units start in rising order. Must not be nested.
    /// Allocates nothing. When the abort flag is set, units not yet started are skipped.
    template <class Fn>
    void run(int64_t n_units, Fn&& fn) {
        run_erased(n_units, Schedule::Dynamic,
                   [&fn](int64_t unit, int64_t, int worker) { fn(unit, worker); });
    }

    /// The same for fewer than 2^32 units, in no order: each thread takes units from the front of its own
    /// static share, then steals from the tails of others' shares. Neighbouring units that write next to each
    /// other, or read what their thread wrote before, then avoid cache-line transfers between cores, which
    /// are slow across chiplets.
    template <class Fn>
    void run_shares(int64_t n_units, Fn&& fn) {
        run_erased(n_units, Schedule::StaticSteal, [&fn](int64_t first, int64_t end, int worker) {
            for (int64_t unit = first; unit < end; ++unit) fn(unit, worker);
        });
    }

    /// run_shares in ranges: fn(first, end, worker). Ranges shrink, down to one unit, so that they are few
    /// and yet all threads finish at the same time. coarse: fewer ranges, for units that cost about as much
    /// as the start of a range.
    template <class Fn>
    void run_ranges(int64_t n_units, Fn&& fn, bool coarse = false) {
        run_erased(n_units, coarse ? Schedule::GuidedCoarse : Schedule::Guided, fn);
    }

    /// A flag that run() polls between units; nullptr for none. The flag outlives its use here.
    void set_abort_flag(const std::atomic<bool>* flag) { abort_ = flag; }
    bool aborted() const { return abort_ && abort_->load(std::memory_order_relaxed); }

  private:
    using RangeFn = void (*)(void* context, int64_t first, int64_t end, int worker);
    template <class Fn>
    void run_erased(int64_t n_units, Schedule schedule, Fn&& fn) {
        using F = std::remove_reference_t<Fn>;
        run_job(
            n_units, schedule,
            [](void* context, int64_t first, int64_t end, int worker) {
                (*static_cast<F*>(context))(first, end, worker);
            },
            const_cast<void*>(static_cast<const void*>(&fn)));
    }
    void run_job(int64_t n_units, Schedule schedule, RangeFn fn, void* context);

    struct State;
    std::unique_ptr<State> state_;
    int n_threads_;
    const std::atomic<bool>* abort_ = nullptr;
};

}  // namespace tessera
