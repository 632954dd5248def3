// This thread submits requests; times are taken in the callbacks on the engine's thread. Prompts are random
// tokens of a fixed seed, and no request ends early, so that runs are comparable.
#include "examples/tessera/bench_load.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "common/quantile.h"
#include "common/rng.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/engine/engine.h"

namespace tessera {

namespace {

/// One request and the times of its tokens.
struct Arrival {
    double submitted = 0;
    int64_t n_prompt = 0, n_cached = 0;
    std::vector<double> times;          // of its tokens
    std::atomic<int64_t> n_written{0};  // their number, readable from other threads meanwhile

    double first_token_ms() const { return times.empty() ? 0 : 1e3 * (times.front() - submitted); }
    /// Adds the milliseconds between neighbours that both came in [begin, end].
    void add_gaps(std::vector<double>& gaps, double begin, double end) const {
        for (size_t i = 1; i < times.size(); ++i)
            if (times[i - 1] >= begin && times[i] <= end) gaps.push_back(1e3 * (times[i] - times[i - 1]));
    }
};

/// The median and the 99th percentile.
Json spread(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return {{"p50", rounded(quantile(values, 0.5))}, {"p99", rounded(quantile(values, 0.99))}};
}

class LoadRun {
  public:
    LoadRun(engine::Engine& engine, const LoadTest& test, int64_t concurrency)
        : engine_(engine), test_(test), concurrency_(concurrency), rng_(7) {}
    /// Ends all requests, so that no callback refers to this object afterwards.
    ~LoadRun() { end_all(true); }
    LoadRun(const LoadRun&) = delete;
    LoadRun& operator=(const LoadRun&) = delete;

    Result<void> run();
    Json figures() const;

    /// The same for requests that generate until the prefill of a long prompt beside them is done.
    Result<void> run_beside();
    Json beside_figures() const;

  private:
    Result<void> submit(Arrival& arrival, int64_t n_prompt, int64_t n_generate);
    void end_all(bool cancelled) {
        for (engine::Ticket& ticket : tickets_) {
            if (cancelled) ticket.cancel();
            ticket.wait();
        }
    }
    std::vector<int32_t> prompt(int64_t n);
    std::string name(const char* kind, int64_t n) const {
        return strf("%s%lldx%lld", kind, static_cast<long long>(n), static_cast<long long>(concurrency_));
    }

    engine::Engine& engine_;
    const LoadTest& test_;
    int64_t concurrency_;
    Rng rng_;
    std::deque<Arrival> arrivals_;
    std::vector<engine::Ticket> tickets_;
    std::mutex mutex_;
    std::condition_variable ended_;
    Arrival beside_;
    int64_t n_open_ = 0;
    double seconds_ = 0, writing_at_ = 0, beside_at_ = 0, read_at_ = 0;
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

Result<void> LoadRun::submit(Arrival& arrival, int64_t n_prompt, int64_t n_generate) {
    engine::Request request;
    request.prompt = prompt(n_prompt);
    request.max_tokens = n_generate;
    request.ignore_eos = true;
    arrival.n_prompt = n_prompt;
    arrival.times.reserve(static_cast<size_t>(n_generate));
    engine::Listener listener;
    listener.on_delta = [&arrival](const engine::Delta& delta) {
        if (delta.id < 0) return;
        arrival.times.push_back(now_seconds());
        ++arrival.n_written;
    };
    listener.on_finish = [this, &arrival](const engine::Outcome& end) {
        const std::lock_guard lock(mutex_);
        arrival.n_cached = end.usage.n_cached;
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
        const double part = test_.mixed ? 0.25 + 0.75 * rng_.next_double() : 1;
        const auto scaled = [part](int64_t n) {
            return std::max<int64_t>(1, static_cast<int64_t>(part * static_cast<double>(n)));
        };
        TSR_TRY_VOID(submit(arrivals_.back(), scaled(test_.n_prompt), scaled(test_.n_generate)));
    }
    end_all(guard.interrupted());
    if (guard.interrupted()) return fail(ErrorCode::Cancelled, "interrupted");
    seconds_ = now_seconds() - start;
    after_ = engine_.stats();
    return {};
}

Result<void> LoadRun::run_beside() {
    const console::InterruptGuard guard;
    const auto wait_for = [&guard](const auto& reached) {
        while (!reached() && !guard.interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return now_seconds();
    };
    for (int64_t i = 0; i < concurrency_; ++i) {
        arrivals_.emplace_back();
        TSR_TRY_VOID(submit(arrivals_.back(), test_.n_prompt, engine_.n_ctx() - test_.n_prompt));
    }
    // All of them generate; the times before the prompt is submitted are the baseline.
    const auto all_have = [this](int64_t n) {
        return std::all_of(arrivals_.begin(), arrivals_.end(),
                           [n](const Arrival& arrival) { return arrival.n_written >= n; });
    };
    beside_at_ = wait_for([&] { return all_have(std::max<int64_t>(test_.n_generate, 2)); });
    TSR_TRY_VOID(submit(beside_, test_.n_beside, 1));
    read_at_ = wait_for([this] { return tickets_.back().done(); });
    end_all(true);
    if (guard.interrupted()) return fail(ErrorCode::Cancelled, "interrupted");
    // Taken from the tokens' times, since this thread may sleep through a short run.
    for (const Arrival& arrival : arrivals_) writing_at_ = std::max(writing_at_, arrival.times[1]);
    return {};
}

Json LoadRun::beside_figures() const {
    std::vector<double> alone, beside;
    for (const Arrival& arrival : arrivals_) {
        arrival.add_gaps(alone, writing_at_, beside_at_);
        arrival.add_gaps(beside, beside_at_, read_at_);
    }
    Json out = {
        {"test", name("beside", test_.n_beside)},
        {"between_tokens_ms", spread(alone)},
        {"between_tokens_beside_ms", spread(beside)},
        {"prompt_tokens_per_s", rounded(static_cast<double>(test_.n_beside) / (read_at_ - beside_at_))}};
    out["ratio"] = rounded(out["between_tokens_beside_ms"]["p50"].get<double>() /
                           out["between_tokens_ms"]["p50"].get<double>());
    return out;
}

Json LoadRun::figures() const {
    std::vector<double> fresh, cached, gaps;
    int64_t n_cached = 0, n_written = 0;
    for (const Arrival& arrival : arrivals_) {
        (2 * arrival.n_cached > arrival.n_prompt ? cached : fresh).push_back(arrival.first_token_ms());
        arrival.add_gaps(gaps, 0, INFINITY);
        n_cached += arrival.n_cached;
        n_written += arrival.n_written;
    }
    const double inside = after_.forward_s - before_.forward_s;
    return {{"test", name("load", test_.n_generate)},
            {"requests", arrivals_.size()},
            {"tokens_per_s", rounded(static_cast<double>(n_written) / seconds_)},
            {"requests_per_s", rounded(static_cast<double>(arrivals_.size()) / seconds_)},
            {"first_token_ms", spread(fresh)},
            {"first_token_cached_ms", spread(cached)},
            {"between_tokens_ms", spread(gaps)},
            {"cached_tokens", n_cached},
            {"preemptions", after_.n_preemptions - before_.n_preemptions},
            {"sampling_share", rounded((after_.sample_s - before_.sample_s) / inside, 4)},
            {"scheduler_share", rounded((after_.other_s - before_.other_s) / inside, 4)}};
}

/// "p50,p99" in one column.
std::string spread_text(const Json& spread) {
    return strf("%.1f,%.1f", spread["p50"].get<double>(), spread["p99"].get<double>());
}

constexpr const char* kRow = "%-14s %8s %10s %16s %16s %16s %8s %9s %9s\n";

std::string heading() {
    return strf(kRow, "test", "requests", "tokens/s", "TTFT ms p50,p99", "cached p50,p99", "ITL ms p50,p99",
                "cached", "sampling", "scheduler");
}

std::string row_of(const Json& f) {
    const auto percent = [&f](const char* key) { return strf("%.2f%%", 100 * f[key].get<double>()); };
    return strf(kRow, f["test"].get<std::string>().c_str(), f["requests"].dump().c_str(),
                strf("%.2f", f["tokens_per_s"].get<double>()).c_str(),
                spread_text(f["first_token_ms"]).c_str(), spread_text(f["first_token_cached_ms"]).c_str(),
                spread_text(f["between_tokens_ms"]).c_str(), f["cached_tokens"].dump().c_str(),
                percent("sampling_share").c_str(), percent("scheduler_share").c_str());
}

std::string beside_row_of(const Json& f) {
    return strf(
        "%-14s ms between tokens p50,p99: %s, during the prefill %s (%.2f times); prefill %.1f tokens/s\n",
        f["test"].get<std::string>().c_str(), spread_text(f["between_tokens_ms"]).c_str(),
        spread_text(f["between_tokens_beside_ms"]).c_str(), f["ratio"].get<double>(),
        f["prompt_tokens_per_s"].get<double>());
}

}  // namespace

engine::EngineOptions load_test_engine(const SessionFlags& flags, const LoadTest& test) {
    engine::EngineOptions options;
    const bool beside = test.n_beside > 0;
    // With --beside, requests generate until the prefill is done, so their contexts need room for a slow one.
    options.n_ctx = test.n_prompt + test.n_generate + (beside ? test.n_beside + 1024 : 0);
    options.max_running = *std::max_element(test.concurrency.begin(), test.concurrency.end()) + beside;
    options.n_batch = std::max(flags.n_batch, options.max_running);
    options.k_type = flags.k_type;
    options.v_type = flags.v_type;
    return options;
}

Result<void> run_load_tests(const LoadedModel& loaded, std::shared_ptr<const text::Tokenizer> tokenizer,
                            const engine::EngineOptions& options, const LoadTest& test) {
    const bool beside = test.n_beside > 0;
    if (!test.json) TSR_TRY_VOID(console::print(loaded.description() + "\n" + (beside ? "" : heading())));
    for (const int64_t concurrency : test.concurrency) {
        // A new engine for each test starts with an empty prefix cache.
        TSR_TRY(const auto engine, engine::Engine::create(loaded.model, tokenizer, *loaded.pool, options));
        LoadRun run(*engine, test, concurrency);
        TSR_TRY_VOID(beside ? run.run_beside() : run.run());
        const Json figures = beside ? run.beside_figures() : run.figures();
        const std::string row = beside ? beside_row_of(figures) : row_of(figures);
        TSR_TRY_VOID(console::print(test.json ? json_line(figures) : row));
    }
    return {};
}

}  // namespace tessera
