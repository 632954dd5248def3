// The thread pool's throughput while other programs keep every processor busy: phases as short as a
// micro-model's, with as many spinning threads as processors. Usage: threads_bench [SECONDS]. Where half of
// each processor is left, a share of about 0.5 is ideal; a pool whose caller waits for a worker that the
// system has preempted has far less.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "common/cpu.h"
#include "common/threads.h"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

/// A few microseconds of arithmetic that the compiler cannot leave out.
uint64_t work(uint64_t x) {
    for (int i = 0; i < 2000; ++i) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

double phases_per_second(ThreadPool& pool, double seconds) {
    std::atomic<uint64_t> sink{0};
    const auto start = Clock::now();
    const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
    int64_t n = 0;
    for (; elapsed() < seconds; ++n)
        pool.run(8, [&](int64_t unit, int) {
            sink.fetch_add(work(static_cast<uint64_t>(unit)), std::memory_order_relaxed);
        });
    return static_cast<double>(n) / elapsed();
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 1;
    const int n_processors = cpu_topology().n_logical;
    ThreadPool pool(std::min(n_processors, 4));
    for (int round = 0; round < 5; ++round) {
        const double idle = phases_per_second(pool, seconds);
        std::atomic<bool> stop{false};
        std::vector<std::thread> spinners;
        for (int i = 0; i < n_processors; ++i)
            spinners.emplace_back([&] {
                while (!stop.load(std::memory_order_relaxed)) {
                }
            });
        const double busy = phases_per_second(pool, seconds);
        stop = true;
        for (std::thread& spinner : spinners) spinner.join();
        std::printf(
            "%d threads: %.0f phases/s on idle processors, %.0f beside %d spinning threads, share %.2f\n",
            pool.n_threads(), idle, busy, n_processors, busy / idle);
    }
}
