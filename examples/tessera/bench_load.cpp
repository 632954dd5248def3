// Requests come from this thread and are answered on the engine's; times are taken in its callbacks. Prompts
// are random tokens of a fixed seed, and no request ends early, so that runs compare.
#include "examples/tessera/bench_load.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/rng.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/engine/engine.h"

namespace tessera {

namespace {

/// One request and when its tokens came.
struct Arrival {
    double submitted = 0, first = 0, last = 0;
    int64_t n_cached = 0;
    std::vector<double> gaps;  // between its tokens, seconds
};

class LoadRun {
  public:
    LoadRun(engine::Engine& engine, const LoadTest& test, int64_t concurrency)
        : engine_(engine), test_(test), concurrency_(concurrency), rng_(7) {}

    Result<void> run();
    Json figures() const;

  private:
    Result<void> submit(Arrival& arrival);
    std::vector<int32_t> prompt(int64_t n);

    engine::Engine& engine_;
    const LoadTest& test_;
    int64_t concurrency_;
    Rng rng_;
    std::deque<Arrival> arrivals_;
    std::vector<engine::Ticket> tickets_;
    std::mutex mutex_;
    std::condition_variable ended_;
    int64_t n_open_ = 0, n_generated_ = 0;
    double seconds_ = 0;
    engine::EngineStats before_, after_;
};

/// The common part from one stream of random numbers, the rest from another.
std::vector<int32_t> LoadRun::prompt(int64_t n) {
    const auto n_vocab = static_cast<uint64_t>(engine_.model().hparams().n_vocab);
    const auto n_shared = static_cast<int64_t>(test_.shared * static_cast<double>(test_.n_prompt));
    Rng shared(1);
    std::vector<int32_t> out;
    for (int64_t i = 0; i < n; ++i)
        out.push_back(static_cast<int32_t>((i < n_shared ? shared : rng_).next_u64() % n_vocab));
    return out;
}

Result<void> LoadRun::submit(Arrival& arrival) {
    const double part = test_.mixed ? 0.25 + 0.75 * rng_.next_double() : 1;
    const auto scaled = [part](int64_t n) {
        return std::max<int64_t>(1, static_cast<int64_t>(part * static_cast<double>(n)));
    };
    engine::Request request;
    request.prompt = prompt(scaled(test_.n_prompt));
    request.max_tokens = scaled(test_.n_generate);
    request.ignore_eos = true;
    engine::Listener listener;
    listener.on_delta = [&arrival](const engine::Delta& delta) {
        if (delta.id < 0) return;
        const double now = now_seconds();
        if (arrival.first == 0)
            arrival.first = now;
        else
            arrival.gaps.push_back(now - arrival.last);
        arrival.last = now;
    };
    listener.on_finish = [this, &arrival](const engine::Outcome& end) {
        const std::lock_guard lock(mutex_);
        arrival.n_cached = end.usage.n_cached;
        n_generated_ += end.usage.n_generated;
        --n_open_;
        ended_.notify_all();
    };
    {
        const std::lock_guard lock(mutex_);
        ++n_open_;
    }
    arrival.submitted = now_seconds();
    TSR_TRY(engine::Ticket ticket, engine_.submit(std::move(request), std::move(listener)));
    tickets_.push_back(std::move(ticket));
    return {};
}

Result<void> LoadRun::run() {
    const console::InterruptGuard guard;
    before_ = engine_.stats();
    const double start = now_seconds();
    double next = start;
    const int64_t n_requests = test_.n_requests > 0 ? test_.n_requests : 3 * concurrency_;
    for (int64_t i = 0; i < n_requests && !guard.interrupted(); ++i) {
        if (test_.rate > 0) {
            std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, next - now_seconds())));
            next += -std::log(1 - rng_.next_double()) / test_.rate;
        }
        {
            std::unique_lock lock(mutex_);
            ended_.wait(lock, [this] { return n_open_ < concurrency_; });
        }
        arrivals_.emplace_back();
        TSR_TRY_VOID(submit(arrivals_.back()));
    }
    for (engine::Ticket& ticket : tickets_) {
        if (guard.interrupted()) ticket.cancel();
        ticket.wait();
    }
    if (guard.interrupted()) return fail(ErrorCode::Cancelled, "the benchmark was cancelled");
    seconds_ = now_seconds() - start;
    after_ = engine_.stats();
    return {};
}

double quantile_of(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

Json LoadRun::figures() const {
    std::vector<double> first, gaps;
    int64_t n_cached = 0;
    for (const Arrival& arrival : arrivals_) {
        first.push_back(1e3 * (arrival.first - arrival.submitted));
        for (const double gap : arrival.gaps) gaps.push_back(1e3 * gap);
        n_cached += arrival.n_cached;
    }
    const double inside = after_.forward_s - before_.forward_s;
    return {{"test", strf("load%lldxC%lld", static_cast<long long>(test_.n_generate),
                          static_cast<long long>(concurrency_))},
            {"requests", arrivals_.size()},
            {"tokens_per_s", rounded(static_cast<double>(n_generated_) / seconds_)},
            {"requests_per_s", rounded(static_cast<double>(arrivals_.size()) / seconds_)},
            {"first_token_ms",
             {{"p50", rounded(quantile_of(first, 0.5))}, {"p99", rounded(quantile_of(first, 0.99))}}},
            {"between_tokens_ms",
             {{"p50", rounded(quantile_of(gaps, 0.5))}, {"p99", rounded(quantile_of(gaps, 0.99))}}},
            {"cached_tokens", n_cached},
            {"preemptions", after_.n_preemptions - before_.n_preemptions},
            {"scheduler_share", rounded((after_.other_s - before_.other_s) / inside, 4)}};
}

std::string row_of(const Json& f) {
    return strf("%-14s %8zu %10.2f %10.1f %10.1f %10.2f %10.2f %8lld %9.2f%%\n",
                f["test"].get<std::string>().c_str(), f["requests"].get<size_t>(),
                f["tokens_per_s"].get<double>(), f["first_token_ms"]["p50"].get<double>(),
                f["first_token_ms"]["p99"].get<double>(), f["between_tokens_ms"]["p50"].get<double>(),
                f["between_tokens_ms"]["p99"].get<double>(), f["cached_tokens"].get<long long>(),
                100 * f["scheduler_share"].get<double>());
}

}  // namespace

engine::EngineOptions load_test_engine(const SessionFlags& flags, const LoadTest& test) {
    engine::EngineOptions options;
    options.n_ctx = test.n_prompt + test.n_generate;
    options.max_running = *std::max_element(test.concurrency.begin(), test.concurrency.end());
    options.n_batch = std::max(flags.n_batch, options.max_running);
    options.k_type = flags.k_type;
    options.v_type = flags.v_type;
    return options;
}

Result<void> run_load_tests(const LoadedModel& loaded, std::shared_ptr<const text::Tokenizer> tokenizer,
                            const engine::EngineOptions& options, const LoadTest& test) {
    if (!test.json)
        TSR_TRY_VOID(
            console::print(loaded.description() + strf("\n%-14s %8s %10s %21s %21s %8s %10s\n", "test",
                                                       "requests", "tokens/s", "first token ms 50,99",
                                                       "between ms 50,99", "cached", "scheduler")));
    for (const int64_t concurrency : test.concurrency) {
        // A new one each time: nothing is known from the test before.
        TSR_TRY(const auto engine, engine::Engine::create(loaded.model, tokenizer, *loaded.pool, options));
        LoadRun run(*engine, test, concurrency);
        TSR_TRY_VOID(run.run());
        const Json figures = run.figures();
        TSR_TRY_VOID(console::print(test.json ? json_line(figures) : row_of(figures)));
    }
    return {};
}

}  // namespace tessera
