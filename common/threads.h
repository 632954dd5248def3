#pragma once
// The one thread pool. Work is cut into units that are handed out dynamically; the caller is worker 0.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

namespace tessera {

/// How a run's units are handed out: one by one in rising order, or from each thread's share one by one, in
/// ranges, in fewer ranges.
enum class Schedule : uint8_t { Dynamic, StaticSteal, Guided, GuidedCoarse };

/// Memory that is read in n streams side by side, from `first` on and so many bytes apart.
struct Streams {
    const std::byte* first = nullptr;
    int64_t apart = 0;
    int n = 0;
};

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

    /// The same, fewer than 2^32, in no order: a thread takes units one behind the other from a share of its
    /// own, then from the ends of others' shares. Neighbours that write side by side, or read what their
    /// thread wrote before, then cost no way between caches, which is long where these are far apart.
    template <class Fn>
    void run_shares(int64_t n_units, Fn&& fn) {
        run_erased(n_units, Schedule::StaticSteal, [&fn](int64_t first, int64_t end, int worker) {
            for (int64_t unit = first; unit < end; ++unit) fn(unit, worker);
        });
    }

    /// run_shares with neighbouring units together: fn(first, end, worker). The ranges become shorter, down
    /// to one unit, so that they are few and yet all threads end at the same time. few: fewer ones, where to
    /// start one costs about as much as a unit takes.
    template <class Fn>
    void run_ranges(int64_t n_units, Fn&& fn, bool few = false) {
        run_erased(n_units, few ? Schedule::GuidedCoarse : Schedule::Guided, fn);
    }

    /// By `worker` from a run: what it will likely read in the next one. While it waits actively it asks for
    /// that, as far as the second cache, up to kFetchedAhead bytes of each stream. Only asked for, it need
    /// not be there any more.
    void fetch_while_waiting(int worker, const Streams& soon);
    static constexpr int64_t kFetchedAhead = int64_t{64} << 10;

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
