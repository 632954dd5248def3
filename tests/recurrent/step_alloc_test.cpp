// After warm-up a pass with recurrent state allocates nothing on the heap, also where it takes a checkpoint.
#include "tests/engine/support.h"
#include "tests/recurrent/decay_mixer.h"
#include "tests/support/count_allocations.h"

namespace tessera::engine {
namespace {

TEST(RecurrentAllocations, none_per_token) {
    ThreadPool pool(2);
    const Loaded loaded = test::load_recurrent(test::model_file("llama"), pool);
    const test::Mixed<Scheduler> all(
        Scheduler::create(loaded.model, loaded.tokenizer, pool, {.n_ctx = 512, .max_running = 4}));
    int64_t n_tokens = 0;
    Listener listener;
    listener.on_delta = [&n_tokens](const Delta& delta) { n_tokens += delta.id >= 0; };
    for (uint64_t i = 0; i < 4; ++i) {
        Request asked;
        asked.prompt = {300, 301, 302, 303};
        asked.max_tokens = 200;
        asked.ignore_eos = true;
        all->add(job_of(asked, listener, i));
    }
    while (n_tokens < 4 * 65) all->step();
    const int64_t n_tokens_before = n_tokens;
    const uint64_t before = test::n_allocations;
    EXPECT_GT(before, 0u);
    for (int i = 0; i < 40; ++i) all->step();
    EXPECT_EQ(n_tokens - n_tokens_before, 4 * 40);
    EXPECT_EQ(test::n_allocations - before, 0u);
}

TEST(RecurrentAllocations, none_at_a_checkpoint_of_a_session) {
    ThreadPool pool(2);
    const Loaded loaded = test::load_recurrent(test::model_file("llama"), pool);
    const test::Mixed<Session> one(Session::create(loaded.model, pool, {.n_ctx = 1200}));
    const std::vector<int32_t> prompt(1000, 7), next = {42};
    ASSERT_TRUE(one->eval(prompt).has_value());
    const uint64_t before = test::n_allocations;
    for (int i = 0; i < 40; ++i) ASSERT_TRUE(one->eval(next).has_value());
    one->truncate(1030);
    ASSERT_TRUE(one->eval(next).has_value());
    EXPECT_EQ(test::n_allocations - before, 0u);
}

}  // namespace
}  // namespace tessera::engine
