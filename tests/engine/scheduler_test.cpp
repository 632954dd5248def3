// The scheduler, driven pass by pass: the order of requests, the prompt tokens that a pass may compute beside
// decoding requests, and the limit of memory under any load.
#include <algorithm>
#include <ctime>
#include <thread>

#include "tests/engine/support.h"
#include "tests/support/wait_for.h"

namespace tessera::engine {
namespace {

TEST(PrefillBudget, APromptAloneGetsTheWholeBatch) {
    const PrefillBudget pace;
    EXPECT_EQ(pace.prompt_tokens(0, 512), 512);
}

TEST(PrefillBudget, BesideDecodersItAtMostDoublesTheirTime) {
    PrefillBudget pace;
    // None before the time of a decoding pass has been measured; then a first guess.
    EXPECT_EQ(pace.prompt_tokens(4, 512), 0);
    pace.measured(4, 0, 0.010);
    const int64_t guess = pace.prompt_tokens(4, 512);
    EXPECT_GT(guess, 0);
    EXPECT_LE(guess, 64);
    // At 0.1 ms per prompt token, at most 100 of them in another 10 ms.
    pace.measured(4, guess, 0.010 + 1e-4 * static_cast<double>(guess));
    const int64_t n = pace.prompt_tokens(4, 512);
    EXPECT_GE(n, 70);
    EXPECT_LE(n, 100);
    EXPECT_EQ(pace.prompt_tokens(4, 20), 16);  // what room there is
    // Slow prompts still proceed, a few tokens at a time.
    for (int i = 0; i < 20; ++i) pace.measured(4, 4, 1.0);
    EXPECT_GT(pace.prompt_tokens(4, 512), 0);
    EXPECT_LE(pace.prompt_tokens(4, 512), 8);
    EXPECT_EQ(pace.prompt_tokens(512, 512), 0);
}

TEST(PrefillBudget, SometimesAPassWithoutPromptsIsMeasuredAgain) {
    PrefillBudget pace;
    pace.measured(2, 0, 0.010);
    int n_mixed = 0;
    for (; pace.prompt_tokens(2, 64) > 0 && n_mixed < 1000; ++n_mixed)
        pace.measured(2, pace.prompt_tokens(2, 64), 0.02);
    EXPECT_GT(n_mixed, 8);
    EXPECT_LT(n_mixed, 200);
    pace.measured(2, 0, 0.010);
    EXPECT_GT(pace.prompt_tokens(2, 64), 0);
    // A pass without decoding requests gives no measurement of them.
    pace.measured(0, 512, 9.0);
    EXPECT_GT(pace.prompt_tokens(2, 64), 0);
}

class Schedulers : public Engines {
  protected:
    void add(Scheduler& to, Request asked, const std::string& name) {
        Listener listener;
        listener.on_delta = [this, name](const Delta&) {
            if (std::find(begun_.begin(), begun_.end(), name) == begun_.end()) begun_.push_back(name);
        };
        listener.on_finish = [this, name](const Outcome& end) {
            ended_.push_back(name);
            finish_[name] = end.finish;
            n_preempted_[name] = end.usage.n_preempted;
        };
        to.add(job_of(std::move(asked), std::move(listener), n_added_++));
    }
    /// Runs passes until nothing is left, and checks memory and queues after each.
    void run_out(Scheduler& all, int most) {
        int n_steps = 0;
        for (; !all.idle() && n_steps < most; ++n_steps) {
            all.step();
            const EngineStats stats = all.stats();
            EXPECT_GE(stats.n_pages_free, 0);
            EXPECT_LE(stats.n_pages_free + stats.n_pages_cached, stats.n_pages);
        }
        EXPECT_TRUE(all.idle()) << n_steps;
    }
    auto place(const std::vector<std::string>& in, const std::string& name) {
        return std::find(in.begin(), in.end(), name) - in.begin();
    }

    std::vector<std::string> begun_, ended_;
    std::map<std::string, Finish> finish_;
    std::map<std::string, int64_t> n_preempted_;
    uint64_t n_added_ = 0;
};

TEST_F(Schedulers, TheClientWithFewerRunningRequestsComesFirst) {
    const auto all = scheduler({.n_ctx = 128, .max_running = 2});
    for (int i = 0; i < 6; ++i) {
        Request asked = request("Once", 10 + i);
        asked.client = "greedy";
        add(*all, asked, "greedy" + std::to_string(i));
    }
    for (int i = 0; i < 2; ++i) {
        Request asked = request("Once", 10);
        asked.client = "modest";
        add(*all, asked, "modest" + std::to_string(i));
    }
    run_out(*all, 1000);
    // One request of each client at a time, although the small one arrived last.
    EXPECT_LT(place(begun_, "modest0"), 2);
    EXPECT_LT(place(begun_, "modest1"), 4);
    EXPECT_EQ(ended_.size(), 8u);
}

TEST_F(Schedulers, HigherPriorityRunsFirstAndIsPreemptedLast) {
    const uint64_t page = plan_cache(*loaded_.model, {.n_ctx = 64})->layout.page_bytes;
    const auto all = scheduler({.n_ctx = 256, .kv_bytes = 4 * page, .max_running = 3});
    for (int i = 0; i < 4; ++i)
        add(*all, request("Once " + std::to_string(i), 120), "low" + std::to_string(i));
    for (int i = 0; i < 5; ++i) all->step();  // some of them run
    Request urgent = request("Then", 200);
    urgent.priority = 3;
    add(*all, urgent, "urgent");
    run_out(*all, 4000);
    // It finishes before the fourth, which arrived earlier, and is never preempted, while others are.
    EXPECT_LT(place(begun_, "urgent"), place(begun_, "low3"));
    EXPECT_EQ(n_preempted_["urgent"], 0);
    EXPECT_GT(all->stats().n_preemptions, 0);
    for (const auto& [name, finish] : finish_) EXPECT_EQ(finish, Finish::Length) << name;
}

TEST_F(Schedulers, NoPreemptionIfMemorySuffices) {
    // Cached prompts do not block requests that continue from them.
    const auto all = scheduler({.n_ctx = 64, .max_running = 4});
    for (int i = 0; i < 4; ++i) add(*all, request("Day " + std::to_string(i), 40), std::to_string(i));
    run_out(*all, 200);
    EXPECT_EQ(ended_.size(), 4u);
    EXPECT_EQ(all->stats().n_preemptions, 0);
}

TEST_F(Schedulers, FourTimesTheBudgetIsNeverExceededAndNoOneStarves) {
    const uint64_t page = plan_cache(*loaded_.model, {.n_ctx = 64})->layout.page_bytes;
    const auto all = scheduler({.n_ctx = 256, .kv_bytes = 8 * page + 17, .max_running = 8});
    EXPECT_EQ(all->kv_bytes(), 8 * page);
    // Each of 8 concurrent requests needs four pages, 32 in all.
    constexpr int kRequests = 24;
    for (int i = 0; i < kRequests; ++i) {
        Request asked = request(story(i % 4) + "Day " + std::to_string(i), -1, static_cast<uint64_t>(i));
        if (asked.prompt.size() > 150) asked.prompt.resize(150);
        asked.max_tokens = 240 - static_cast<int64_t>(asked.prompt.size());
        add(*all, asked, std::to_string(i));
    }
    run_out(*all, 20000);
    ASSERT_EQ(ended_.size(), static_cast<size_t>(kRequests));
    EXPECT_GT(all->stats().n_preemptions, 0);
    for (int i = 0; i < kRequests; ++i) {
        EXPECT_EQ(finish_[std::to_string(i)], Finish::Length);
        // Requests end in the order of arrival, up to those that run at the same time.
        EXPECT_LT(std::abs(place(ended_, std::to_string(i)) - i), 8) << i;
    }
}

TEST_F(Schedulers, EndsOfOthersDoNotKeepAPromptFromBeingRead) {
    const auto all = scheduler({.n_ctx = 2048, .n_batch = 1024, .max_running = 2});
    Request asked = request("Once", 2);
    while (asked.prompt.size() < 1500)
        asked.prompt.push_back(300 + static_cast<int32_t>(asked.prompt.size()));
    add(*all, asked, "long");
    std::atomic<bool> stop{false};
    std::thread others([&stop, control = all->control()] {
        while (!stop.load()) control->interrupt();
    });
    run_out(*all, 400);
    stop.store(true);
    others.join();
    EXPECT_GT(all->stats().n_aborted_passes, 0);
    EXPECT_EQ(finish_["long"], Finish::Length);
}

/// CPU time of the process, in seconds.
double process_cpu_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST_F(Engines, CancelAndDeadlineAbortALongPass) {
    std::vector<int32_t> prompt;
    for (int32_t i = 0; i < 32000; ++i) prompt.push_back(300 + i * 7 % 3000);
    for (const bool by_deadline : {false, true}) {
        int64_t n_aborted = 0;
        // A busy machine may start the pass only after the request has ended, hence several attempts.
        for (int attempt = 0; attempt < 10 && n_aborted == 0; ++attempt) {
            const auto one = engine({.n_ctx = 32768, .n_batch = 4096, .max_running = 1});
            Request asked = request("Once", 1);
            asked.prompt = prompt;
            asked.deadline_s = by_deadline ? 0.3 : 0;
            Got got;
            const double before = process_cpu_seconds();
            Ticket ticket = *one->submit(asked, got.listener());
            if (!by_deadline) {
                ASSERT_TRUE(test::wait_for([&] { return process_cpu_seconds() - before > 0.2; }));
                ticket.cancel();
            }
            ticket.wait();
            EXPECT_EQ(got.outcome[0].finish, by_deadline ? Finish::Deadline : Finish::Cancelled);
            // The statistics are published after the step that reported the end.
            test::wait_for([&] { return one->stats().n_aborted_passes > 0; }, std::chrono::seconds(2));
            n_aborted = one->stats().n_aborted_passes;
            EXPECT_EQ(one->stats().n_passes, 0) << "a pass of 4096 tokens was completed";
        }
        EXPECT_EQ(n_aborted, 1) << (by_deadline ? "deadline" : "cancel");
    }
}

}  // namespace
}  // namespace tessera::engine
