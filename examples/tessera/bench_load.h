#pragma once
// bench --concurrency: requests to the engine as a server gets them, and how long each waits for its tokens.
#include <vector>

#include "examples/tessera/model_loading.h"
#include "src/engine/scheduler.h"

namespace tessera {

struct LoadTest {
    std::vector<int64_t> concurrency;  ///< requests that are open at a time, one test each
    int64_t n_requests = 0;            ///< of a test; 0 = three for each that is open
    int64_t n_prompt = 512, n_generate = 128;
    double shared = 0;   ///< part of each prompt that all have in common, 0..1
    bool mixed = false;  ///< lengths from a quarter of those to all
    double rate = 0;     ///< arrivals a second at random times; 0 = the next one as soon as one ends
    int64_t n_beside =
        0;  ///< > 0: all that are open write, and a prompt of so many tokens is read beside them
    bool json = false;
};

/// The engine that the tests run.
engine::EngineOptions load_test_engine(const SessionFlags& flags, const LoadTest& test);

/// Prints a line for each concurrency.
Result<void> run_load_tests(const LoadedModel& loaded, std::shared_ptr<const text::Tokenizer> tokenizer,
                            const engine::EngineOptions& options, const LoadTest& test);

}  // namespace tessera
