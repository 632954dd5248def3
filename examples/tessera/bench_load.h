#pragma once
// bench --concurrency: requests to the engine as a server gets them, and the latency of their tokens.
#include <vector>

#include "examples/tessera/model_loading.h"
#include "src/engine/scheduler.h"

namespace tessera {

struct LoadTest {
    std::vector<int64_t> concurrency;  ///< open requests, one test for each
    int64_t n_requests = 0;            ///< per test; 0 = three times the concurrency
    int64_t n_prompt = 512, n_generate = 128;
    double shared = 0;     ///< part of each prompt that is common to all, 0..1
    bool mixed = false;    ///< lengths vary between 25 % and 100 %
    double rate = 0;       ///< arrivals per second at random times; 0 = a new one when one ends
    int64_t n_beside = 0;  ///< > 0: tokens of a prompt that is prefilled while the others generate
    bool json = false;
};

/// The engine that the tests run.
engine::EngineOptions load_test_engine(const SessionFlags& flags, const LoadTest& test);

/// Prints a line for each concurrency.
Result<void> run_load_tests(const LoadedModel& loaded, std::shared_ptr<const text::Tokenizer> tokenizer,
                            const engine::EngineOptions& options, const LoadTest& test);

}  // namespace tessera
