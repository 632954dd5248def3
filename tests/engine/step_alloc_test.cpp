// After warm-up a pass allocates nothing on the heap: neither the scheduler nor the model, sampling, or the
// text for the listener.
#include "tests/engine/support.h"
#include "tests/support/count_allocations.h"

namespace tessera::engine {
namespace {

class StepAllocations : public Engines {
  protected:
    /// Heap blocks allocated in passes of four decoding completions between two page boundaries.
    uint64_t taken(const std::function<void(Request&)>& change) {
        const auto all = scheduler({.n_ctx = 512, .max_running = 4});
        int64_t n_tokens = 0;
        Listener listener;
        listener.on_delta = [&n_tokens](const Delta& delta) { n_tokens += delta.id >= 0; };
        for (uint64_t i = 0; i < 4; ++i) {
            Request asked = request("Once upon a time", 200, i);
            change(asked);
            all->add(job_of(asked, listener, i));
        }
        // Their texts have the same length, so that their pages end in the same pass.
        while (n_tokens < 4 * 60) all->step();
        const int64_t n_tokens_before = n_tokens;
        const uint64_t before = test::n_allocations;
        EXPECT_GT(before, 0u);
        for (int i = 0; i < 40; ++i) all->step();
        EXPECT_EQ(n_tokens - n_tokens_before, 4 * 40);
        return test::n_allocations - before;
    }
};

TEST_F(StepAllocations, NoneWithDefaults) {
    EXPECT_EQ(taken([](Request&) {}), 0u);
}

TEST_F(StepAllocations, NoneWithProbabilitiesStopStringsAndPenalties) {
    EXPECT_EQ(taken([](Request& asked) {
                  asked.n_top = 5;
                  asked.stop = {"never in this text", "nor this one"};
                  for (const auto& [name, value] :
                       {std::pair("repeat_penalty", 1.1), std::pair("presence_penalty", 0.1),
                        std::pair("dry_multiplier", 0.8), std::pair("xtc_probability", 0.3),
                        std::pair("temperature", 0.9), std::pair("top_k", 50.0)})
                      EXPECT_TRUE(asked.sampling.set(name, value)) << name;
              }),
              0u);
}

}  // namespace
}  // namespace tessera::engine
