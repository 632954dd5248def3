#include "common/threads.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "common/cpu.h"
#include "tests/support/count_allocations.h"
#include "tests/support/wait_for.h"

namespace tessera {
namespace {

double cpu_seconds() {
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

TEST(ThreadPool, EveryUnitRunsOnceOnAValidWorker) {
    for (const int n_threads : {1, 2, 3, 4, 9}) {
        ThreadPool pool(n_threads);
        EXPECT_EQ(pool.n_threads(), n_threads);
        for (const int64_t n_units : {0, 1, 2, 3, 7, 64, 1000}) {
            std::vector<int> counts(static_cast<size_t>(n_units));  // plain: units share nothing
            std::atomic<bool> workers_valid{true};
            pool.run(n_units, [&](int64_t unit, int worker) {
                counts[static_cast<size_t>(unit)]++;
                if (worker < 0 || worker >= n_threads) workers_valid = false;
            });
            EXPECT_TRUE(workers_valid);
            EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), n_units);
        }
    }
}

TEST(ThreadPool, TheSizeIsClamped) {
    EXPECT_EQ(ThreadPool(0).n_threads(), 1);
    EXPECT_EQ(ThreadPool(-5).n_threads(), 1);
    EXPECT_LE(ThreadPool(100000).n_threads(), ThreadPool::kMaxThreads);
}

TEST(ThreadPool, TheCallerIsWorkerZeroAndNumbersAreUnique) {
    ThreadPool pool(4);
    const auto caller = std::this_thread::get_id();
    std::vector<std::atomic<bool>> busy(4);
    std::atomic<bool> wrong{false};
    for (int round = 0; round < 50; round++)
        pool.run(100, [&](int64_t, int worker) {
            if (busy[static_cast<size_t>(worker)].exchange(true)) wrong = true;
            if ((worker == 0) != (std::this_thread::get_id() == caller)) wrong = true;
            busy[static_cast<size_t>(worker)] = false;
        });
    EXPECT_FALSE(wrong);
}

// Back-to-back runs of all sizes, each with a context of its own that is destroyed at once. A worker that
// took a unit of one run with the job of another would write to the wrong place or twice.
TEST(ThreadPool, LateWorkersNeverMixRuns) {
    for (const int n_threads : {2, 4, 8}) {
        ThreadPool pool(n_threads);
        for (int run = 0; run < 5000; run++) {
            const int64_t n_units = 1 + run % 13;
            std::vector<int> seen(13, -1);
            pool.run(n_units, [&seen, run](int64_t unit, int) {
                int& slot = seen[static_cast<size_t>(unit)];
                slot = slot == -1 ? run : -2;
            });
            for (int64_t unit = 0; unit < 13; unit++)
                ASSERT_EQ(seen[static_cast<size_t>(unit)], unit < n_units ? run : -1) << "run " << run;
        }
    }
}

TEST(ThreadPool, RangesTakeEveryUnitOnceAndBecomeShorter) {
    struct Run {
        int64_t n_units;
        bool few;
    };
    for (const int n_threads : {1, 2, 3, 9}) {
        ThreadPool pool(n_threads);
        for (const Run run : {Run{0, false},
                              {1, false},
                              {2, true},
                              {7, false},
                              {7, true},
                              {64, false},
                              {64, true},
                              {1000, false},
                              {1000, true}}) {
            const int64_t n_units = run.n_units;
            std::vector<int> counts(static_cast<size_t>(n_units));
            // For each thread, all ranges that it took and those of its own share.
            std::vector<std::vector<int64_t>> lengths(static_cast<size_t>(n_threads)), own = lengths;
            for (auto* lists : {&lengths, &own})
                for (auto& list : *lists) list.reserve(static_cast<size_t>(n_units));
            std::atomic<bool> wrong{false};
            pool.run_ranges(
                n_units,
                [&](int64_t first, int64_t end, int worker) {
                    if (first < 0 || first >= end || end > n_units) wrong = true;
                    for (int64_t unit = first; unit < end; unit++) counts[static_cast<size_t>(unit)]++;
                    lengths[static_cast<size_t>(worker)].push_back(end - first);
                    if (first >= n_units * worker / n_threads && end <= n_units * (worker + 1) / n_threads)
                        own[static_cast<size_t>(worker)].push_back(end - first);
                },
                run.few);
            EXPECT_FALSE(wrong);
            for (const auto& list : own) EXPECT_TRUE(std::is_sorted(list.rbegin(), list.rend()));
            EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), n_units);
            size_t n_ranges = 0;
            for (const auto& list : lengths) {
                n_ranges += list.size();
                // A thread that is stopped after it took a range leaves at least half of a fair share to the
                // others, or a third if there are few ranges and it continues soon.
                const int64_t share = (n_units + n_threads - 1) / n_threads;
                const int64_t most =
                    run.few && share <= 64 ? share - share / 3 : std::max<int64_t>(1, share / 2);
                for (const int64_t n : list) EXPECT_LE(n, n_threads == 1 ? n_units : most);
            }
            EXPECT_LE(n_ranges, static_cast<size_t>(n_threads) * 14);
        }
    }
}

TEST(ThreadPool, AThreadGoesThroughItsOwnShareAndThenHelpsFromTheEnds) {
    constexpr int64_t kUnits = 64, kShare = kUnits / 2;
    ThreadPool pool(2);
    for (const bool few : {false, true}) {
        std::vector<int64_t> firsts[2];
        for (auto& list : firsts) list.reserve(kUnits);
        std::atomic<int64_t> n_done{0};
        std::atomic<bool> caller_began{false};
        // The caller holds its first range until everything else is done, so that the other thread must steal
        // the rest.
        pool.run_ranges(
            kUnits,
            [&](int64_t first, int64_t end, int worker) {
                firsts[worker].push_back(first);
                if (worker == 0) caller_began = true;
                while (!caller_began) std::this_thread::yield();
                if (worker == 0)
                    while (n_done < kUnits - (end - first)) std::this_thread::yield();
                n_done += end - first;
            },
            few);
        ASSERT_EQ(firsts[0], std::vector<int64_t>{0});
        const std::vector<int64_t>& other = firsts[1];
        const auto first_of_other =
            std::find_if(other.begin(), other.end(), [](int64_t at) { return at < kShare; });
        EXPECT_EQ(other.front(), kShare);
        EXPECT_TRUE(std::is_sorted(other.begin(), first_of_other));
        EXPECT_TRUE(std::is_sorted(other.rbegin(), std::make_reverse_iterator(first_of_other)));
        // The range that the caller held.
        EXPECT_EQ(other.back(), few ? kShare - kShare / 3 : kShare / 2);
    }
}

TEST(ThreadPool, SharesAreTakenUnitByUnitAndHelpedFromTheEnds) {
    for (const int64_t n_units : {2, 3, 64}) {
        ThreadPool pool(2);
        std::vector<int64_t> units[2];
        for (auto& list : units) list.reserve(static_cast<size_t>(n_units));
        std::atomic<int64_t> n_done{0};
        std::atomic<bool> caller_began{false};
        // As above, the caller holds its first unit.
        pool.run_shares(n_units, [&](int64_t unit, int worker) {
            units[worker].push_back(unit);
            if (worker == 0) caller_began = true;
            while (!caller_began) std::this_thread::yield();
            if (worker == 0)
                while (n_done < n_units - 1) std::this_thread::yield();
            n_done++;
        });
        EXPECT_EQ(units[0], std::vector<int64_t>{0});
        std::vector<int64_t> expected;
        for (int64_t unit = n_units / 2; unit < n_units; unit++) expected.push_back(unit);
        for (int64_t unit = n_units / 2 - 1; unit > 0; unit--) expected.push_back(unit);
        EXPECT_EQ(units[1], expected);
    }
    ThreadPool alone(1);
    std::vector<int64_t> units;
    alone.run_shares(5, [&](int64_t unit, int) { units.push_back(unit); });
    EXPECT_EQ(units, (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

TEST(ThreadPool, LateWorkersNeverMixUnitsAndRanges) {
    ThreadPool pool(4);
    for (int run = 0; run < 5000; run++) {
        const int64_t n_units = 1 + run % 40;
        std::vector<int> seen(40, -1);
        const auto mark = [&seen, run](int64_t unit) {
            int& slot = seen[static_cast<size_t>(unit)];
            slot = slot == -1 ? run : -2;
        };
        if (run % 3 == 0) {
            pool.run(n_units, [&](int64_t unit, int) { mark(unit); });
        } else if (run % 3 == 1) {
            pool.run_shares(n_units, [&](int64_t unit, int) { mark(unit); });
        } else {
            pool.run_ranges(n_units, [&](int64_t first, int64_t end, int) {
                while (first < end) mark(first++);
            });
        }
        for (int64_t unit = 0; unit < 40; unit++)
            ASSERT_EQ(seen[static_cast<size_t>(unit)], unit < n_units ? run : -1) << "run " << run;
    }
}

TEST(ThreadPool, WritesAreVisibleFromRunToRun) {
    ThreadPool pool(4);
    std::vector<int64_t> a(257, 1), b(257, 0);
    for (int step = 0; step < 200; step++) {
        pool.run(257,
                 [&](int64_t i, int) { b[static_cast<size_t>(i)] = a[static_cast<size_t>(256 - i)] + 1; });
        a.swap(b);
    }
    EXPECT_EQ(std::accumulate(a.begin(), a.end(), int64_t{0}), 257 * 201);
}

TEST(ThreadPool, WorkersDoShareTheWork) {
    ThreadPool pool(2);
    std::atomic<int> n_inside{0};
    // Each unit waits for the other one, so that the run ends only if two threads run at the same time.
    pool.run(2, [&](int64_t, int) {
        n_inside++;
        while (n_inside < 2) std::this_thread::yield();
    });
    EXPECT_EQ(n_inside, 2);
}

TEST(ThreadPool, UnitsStartInRisingOrder) {
    ThreadPool pool(3);
    std::vector<std::vector<int64_t>> taken(3);
    for (auto& list : taken) list.reserve(1000);
    pool.run(1000, [&](int64_t unit, int worker) { taken[static_cast<size_t>(worker)].push_back(unit); });
    for (const auto& list : taken) EXPECT_TRUE(std::is_sorted(list.begin(), list.end()));
}

TEST(ThreadPool, SleepingWorkersWakeUp) {
    ThreadPool pool(3);
    for (int round = 0; round < 5; round++) {
        ASSERT_TRUE(test::wait_for(test::all_others_sleep));
        std::atomic<int64_t> sum{0};
        pool.run(100, [&](int64_t unit, int) { sum += unit; });
        EXPECT_EQ(sum, 4950);
    }
}

TEST(ThreadPool, TheCallerSleepsUntilASlowUnitIsDone) {
    ThreadPool pool(2);
    const std::string caller = std::to_string(gettid());
    for (int round = 0; round < 3; round++) {
        std::atomic<bool> worker_started{false}, worker_done{false}, caller_slept{false};
        pool.run(2, [&](int64_t, int worker) {
            if (worker == 0) {
                while (!worker_started) std::this_thread::yield();
                return;
            }
            worker_started = true;
            caller_slept = test::wait_for([&] { return test::sleeps(caller); });
            worker_done = true;
        });
        EXPECT_TRUE(worker_done);
        EXPECT_TRUE(caller_slept);
    }
}

TEST(ThreadPool, AnIdlePoolUsesNoProcessorTime) {
    ThreadPool pool(4);
    pool.run(100, [](int64_t, int) {});
    ASSERT_TRUE(test::wait_for(test::all_others_sleep));
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the time that is measured
    EXPECT_LT(cpu_seconds() - before, 0.03);
}

TEST(ThreadPool, ARunAllocatesNothing) {
    ThreadPool pool(4);
    std::atomic<int64_t> sum{0};
    const auto add = [&](int64_t unit, int) { sum.fetch_add(unit, std::memory_order_relaxed); };
    pool.run(64, add);
    const uint64_t before = test::n_allocations;
    for (int round = 0; round < 100; round++) pool.run(64, add);
    EXPECT_EQ(test::n_allocations, before);
    EXPECT_EQ(sum, 101 * 2016);
}

TEST(ThreadPool, AbortSkipsUnitsNotYetStarted) {
    for (const int n_threads : {1, 4}) {
        ThreadPool pool(n_threads);
        std::atomic<bool> abort{false};
        pool.set_abort_flag(&abort);
        std::atomic<int64_t> n_started{0};
        pool.run(int64_t{1} << 40, [&](int64_t unit, int) {
            n_started++;
            if (unit == 100) abort = true;
        });
        EXPECT_TRUE(pool.aborted());
        EXPECT_GE(n_started, 101);
        n_started = 0;
        pool.run(50, [&](int64_t, int) { n_started++; });
        pool.run(1, [&](int64_t, int) { n_started++; });
        pool.run_ranges(50, [&](int64_t, int64_t, int) { n_started++; });
        pool.run_shares(50, [&](int64_t, int) { n_started++; });
        EXPECT_EQ(n_started, 0);
        abort = false;
        pool.run(50, [&](int64_t, int) { n_started++; });
        EXPECT_EQ(n_started, 50);
        abort = true;
        pool.set_abort_flag(nullptr);
        EXPECT_FALSE(pool.aborted());
        pool.run(50, [&](int64_t, int) { n_started++; });
        EXPECT_EQ(n_started, 100);
    }
}

TEST(ThreadPool, TwoPoolsWorkSideBySide) {
    std::atomic<int64_t> sum{0};
    const auto work = [&sum] {
        ThreadPool pool(3);
        for (int round = 0; round < 300; round++) pool.run(20, [&](int64_t unit, int) { sum += unit; });
    };
    std::thread other(work);
    work();
    other.join();
    EXPECT_EQ(sum, 2 * 300 * 190);
}

TEST(ThreadPool, ManyMoreThreadsThanProcessorsStillFinishSoon) {
    ThreadPool pool(64);
    std::atomic<int64_t> sum{0};
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; round < 200; round++) pool.run(64, [&](int64_t unit, int) { sum += unit; });
    EXPECT_EQ(sum, 200 * 2016);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(ThreadPool, DestructionJoinsBusyAndSleepingWorkers) {
    for (int round = 0; round < 50; round++) {
        ThreadPool pool(1 + round % 6);
        if (round % 2) pool.run(8, [](int64_t, int) {});
        if (round % 10 == 0) {
            ASSERT_TRUE(test::wait_for(test::all_others_sleep));
        }
    }
}

TEST(ThreadPool, EveryUnitRunsOnceOnBusyProcessors) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> spinners;
    for (int i = 0; i < cpu_topology().n_logical; ++i)
        spinners.emplace_back([&] {
            while (!stop.load(std::memory_order_relaxed)) {
            }
        });
    ThreadPool pool(std::min(cpu_topology().n_logical + 1, 4));
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 300; round++) pool.run(8, [&](int64_t unit, int) { sum += unit; });
    stop = true;
    for (std::thread& spinner : spinners) spinner.join();
    EXPECT_EQ(sum, 300 * 28);
}

TEST(ThreadPoolDeathTest, NestedRunsAbort) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    for (const int n_threads : {1, 3})
        EXPECT_DEATH(
            {
                ThreadPool pool(n_threads);
                pool.run(4, [&](int64_t, int) { pool.run(4, [](int64_t, int) {}); });
            },
            "internal error");
}

}  // namespace
}  // namespace tessera
