#pragma once
// An engine over a small model, and listeners that record its events.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/pattern.h"
#include "src/engine/engine.h"
#include "src/engine/load.h"
#include "tests/support/data.h"

namespace tessera::engine {

inline const std::string kModelPath = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";

inline Loaded load_or_die(const std::string& path, ThreadPool& pool) {
    auto loaded = load(path, pool, {});
    EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : loaded.error().message);
    return std::move(*loaded);
}

/// The recorded events of a request.
struct Got {
    std::map<int32_t, std::vector<int32_t>> ids;
    std::map<int32_t, std::string> text;
    std::map<int32_t, Outcome> outcome;
    std::vector<std::vector<TokenProb>> top;  // of completion 0
    std::vector<float> log_p;
    std::atomic<int> n_delta{0};

    Listener listener() {
        Listener out;
        out.on_delta = [this](const Delta& delta) {
            if (delta.id >= 0) ids[delta.completion].push_back(delta.id);
            text[delta.completion] += delta.text;
            if (delta.completion == 0 && delta.id >= 0) {
                top.emplace_back(delta.top.begin(), delta.top.end());
                log_p.push_back(delta.log_p);
            }
            ++n_delta;
        };
        out.on_finish = [this](const Outcome& end) { outcome[end.completion] = end; };
        return out;
    }
};

/// The job that the engine makes of a request, for tests that drive a scheduler themselves.
inline std::shared_ptr<Job> job_of(Request request, Listener listener, uint64_t number) {
    auto job = std::make_shared<Job>();
    job->n_open = request.n;
    job->request = std::move(request);
    job->listener = std::move(listener);
    job->submitted_at = now_seconds();
    job->number = number;
    return job;
}

class Engines : public testing::Test {
  protected:
    explicit Engines(const std::string& path = kModelPath) : pool_(2), loaded_(load_or_die(path, pool_)) {}

    std::unique_ptr<Engine> engine(const EngineOptions& options, ThreadPool* pool = nullptr) {
        auto out = Engine::create(loaded_.model, loaded_.tokenizer, pool ? *pool : pool_, options);
        EXPECT_TRUE(out.has_value()) << (out ? "" : out.error().message);
        return std::move(*out);
    }

    std::unique_ptr<Scheduler> scheduler(const EngineOptions& options) {
        auto out = Scheduler::create(loaded_.model, loaded_.tokenizer, pool_, options);
        EXPECT_TRUE(out.has_value()) << (out ? "" : out.error().message);
        return std::move(*out);
    }

    Request request(const std::string& prompt, int64_t n, uint64_t seed = 5) {
        Request out;
        out.prompt = *loaded_.tokenizer->encode(prompt);
        out.max_tokens = n;
        out.ignore_eos = true;
        EXPECT_TRUE(out.sampling.set("seed", static_cast<double>(seed)).has_value());
        return out;
    }

    /// Alone on an engine of its own.
    std::vector<int32_t> alone(const Request& request, const EngineOptions& options) {
        Got got;
        auto one = engine(options);
        one->submit(request, got.listener())->wait();
        return got.ids[0];
    }

    ThreadPool pool_;
    Loaded loaded_;
};

/// Matches whole texts. An invalid pattern fails the test.
inline Pattern whole_text(const std::string& pattern) { return *Pattern::compile("^(?:" + pattern + ")\\z"); }

inline std::string story(int n) {
    std::string out;
    for (int i = 0; i < n; ++i)
        out += "The captain looked at the sea and said that day " + std::to_string(i) + ". ";
    return out;
}

}  // namespace tessera::engine
