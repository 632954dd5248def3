// Sessions: errors that name the valid range, cancellation without side effects, no heap allocation in steady
// state.
#include "tests/model/support.h"
#include "tests/support/count_allocations.h"

namespace tessera::test {

namespace {

const std::string kModelPath = std::string(TSR_SOURCE_DIR) + "/models/tessera-tiny.gguf";

TEST(SessionErrors, RangesAreNamed) {
    ThreadPool pool(1);
    auto model = load_model(kModelPath, pool);
    ASSERT_TRUE(model) << model.error().message;
    engine::SessionOptions options;
    options.n_ctx = 8;
    auto session = engine::Session::create(*model, pool, options);
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<int32_t> bad = {1, 4096}, negative = {-1}, nine(9, 1), eight(8, 1);
    EXPECT_NE((*session)->eval(bad).error().message.find("found 4096"), std::string::npos);
    EXPECT_NE((*session)->eval(negative).error().message.find("found -1"), std::string::npos);
    EXPECT_NE((*session)->eval({}).error().message.find("found none"), std::string::npos);
    EXPECT_NE((*session)->eval(nine).error().message.find("at most 8"), std::string::npos);
    EXPECT_EQ((*session)->n_tok(), 0);
    EXPECT_TRUE((*session)->eval(eight));
    EXPECT_FALSE((*session)->eval(std::vector<int32_t>{1}));
    options.k_type = Type::Q4_K;
    EXPECT_FALSE(engine::Session::create(*model, pool, options));
    options = {};
    options.n_batch = 0;
    EXPECT_FALSE(engine::Session::create(*model, pool, options));
}

TEST(Session, CancelLeavesTheStateUnchanged) {
    ThreadPool pool(2);
    auto model = load_model(kModelPath, pool);
    ASSERT_TRUE(model) << model.error().message;
    auto session = engine::Session::create(*model, pool, {});
    ASSERT_TRUE(session) << session.error().message;
    const std::vector<int32_t> prompt = {1, 5, 300, 17}, next = {42};
    ASSERT_TRUE((*session)->eval(prompt));
    ASSERT_TRUE((*session)->eval(next));
    const std::vector<float> expected((*session)->logits().begin(), (*session)->logits().end());
    (*session)->truncate(4);
    std::atomic<bool> abort{true};
    pool.set_abort_flag(&abort);
    const auto cancelled = (*session)->eval(next);
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().code, ErrorCode::Cancelled);
    EXPECT_EQ((*session)->n_tok(), 4);
    pool.set_abort_flag(nullptr);
    ASSERT_TRUE((*session)->eval(next));
    EXPECT_TRUE(same_bits(expected, {(*session)->logits().begin(), (*session)->logits().end()}));
}

TEST(Session, TakesNoMemoryInSteadyState) {
    ThreadPool pool(2);
    for (const bool pack : {true, false}) {
        auto model = load_model(kModelPath, pool, "", pack);
        ASSERT_TRUE(model) << model.error().message;
        engine::SessionOptions options;
        options.n_ctx = 1024;
        auto session = engine::Session::create(*model, pool, options);
        ASSERT_TRUE(session) << session.error().message;
        const std::vector<int32_t> prompt(600, 7), next = {42};
        ASSERT_TRUE((*session)->eval(prompt));
        const uint64_t before = n_allocations;
        for (int i = 0; i < 8; ++i) ASSERT_TRUE((*session)->eval(next));
        (*session)->truncate(5);
        ASSERT_TRUE((*session)->eval(prompt));
        EXPECT_EQ(n_allocations - before, 0u) << "pack " << pack;
    }
}

}  // namespace

}  // namespace tessera::test
