// The memory plan of a small model: the sum equals the memory that is then taken, and the cache shrinks to
// fit.
#include "src/engine/plan.h"

#include "tests/engine/support.h"
#include "tests/model/support.h"

namespace tessera::engine {
namespace {

Result<std::unique_ptr<Model>> bound(bool pack) {
    TSR_TRY(gguf::File file, gguf::File::open(kModelPath));
    return Model::bind(std::move(file), test::kernel_table(), pack);
}

TEST(MemoryPlan, BoundAndLoadedModelsAgree) {
    ThreadPool pool(2);
    for (const bool pack : {true, false}) {
        const auto before = bound(pack);
        ASSERT_TRUE(before) << before.error().message;
        const auto after = test::load_model(kModelPath, pool, "", pack);
        ASSERT_TRUE(after) << after.error().message;
        const SessionOptions one{.n_ctx = 200, .n_batch = 64, .max_out = 3};
        const auto a = plan_memory(**before, {one, 2}, 2), b = plan_memory(**after, {one, 2}, 2);
        ASSERT_TRUE(a && b);
        EXPECT_EQ(a->growth_bytes(), b->growth_bytes());
        EXPECT_EQ((*before)->packed_bytes(), (*after)->packed_bytes());
        EXPECT_EQ(a->packed, (*before)->packed_bytes());
        EXPECT_EQ(a->activations, Activations::bytes(**before, 64, 3));
        // Other backends read floats that the kernels of packed weights do not.
        EXPECT_GE(Activations::bytes(**before, 64, 3, true), a->activations);
        EXPECT_EQ(a->packed > 0, pack);
        EXPECT_EQ(a->mapped > 0, !pack);
        EXPECT_EQ(a->n_pages, 8);
        const auto activations = Activations::create(**after, 64, 3);
        ASSERT_TRUE(activations);
        EXPECT_EQ(activations->memory.size(), Activations::bytes(**before, 64, 3));
    }
}

TEST(MemoryPlan, WeightsAreCountedOnce) {
    const auto model = bound(false);
    ASSERT_TRUE(model);
    const MemoryDemand demand{{.n_ctx = 64}, 1};
    const uint64_t resident = (*model)->mapped_bytes() / 2;
    const auto none = plan_memory(**model, demand, 1), half = plan_memory(**model, demand, 1, resident),
               too_many = plan_memory(**model, demand, 1, uint64_t{1} << 40);
    ASSERT_TRUE(none && half && too_many);
    // Minus the growth of this process in between.
    EXPECT_LT(half->process, none->process - resident + (1 << 20));
    EXPECT_LT(too_many->process, none->process - (*model)->mapped_bytes() + (1 << 20));
    EXPECT_GT(too_many->process, 0u);
    EXPECT_EQ(half->mapped, none->mapped);
    EXPECT_EQ(half->growth_bytes(), none->growth_bytes());
}

TEST(MemoryPlan, CacheGrowsWithContextSlotsAndType) {
    const auto model = bound(true);
    ASSERT_TRUE(model);
    const auto cache = [&](int64_t n_ctx, int64_t n_slots, Type type) {
        const auto plan =
            plan_memory(**model, {{.n_ctx = n_ctx, .k_type = type, .v_type = type}, n_slots}, 1);
        return static_cast<uint64_t>(plan->n_pages) * plan->page;
    };
    const uint64_t one = cache(64, 1, Type::F16);
    EXPECT_EQ(one, uint64_t{6} * 2 * 2 * 64 * 64 * 2);  // layers, K and V, heads, head size, positions, bytes
    EXPECT_EQ(cache(65, 1, Type::F16), 2 * one);
    EXPECT_EQ(cache(64, 5, Type::F16), 5 * one);
    EXPECT_EQ(cache(64, 1, Type::F32), 2 * one);
    EXPECT_FALSE(plan_memory(**model, {{}, 0}, 1).has_value());
}

TEST(MemoryPlan, RefusalShowsThePlan) {
    const auto model = bound(true);
    ASSERT_TRUE(model);
    const auto plan = plan_memory(**model, {{.n_ctx = 256}, 1}, 1);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(check_fits(*plan, plan->growth_bytes()));
    EXPECT_TRUE(check_fits(*plan, 0));
    const auto refused = check_fits(*plan, plan->growth_bytes() - 1);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
    for (const char* part : {"expected room for", "KV cache", "1 x 256 positions", "total"})
        EXPECT_NE(refused.error().message.find(part), std::string::npos) << refused.error().message;
}

TEST(MemoryPlan, PagesGiveWayToMemory) {
    const auto model = bound(true);
    ASSERT_TRUE(model);
    const auto one = plan_cache(**model, {.n_ctx = 256});
    ASSERT_TRUE(one);
    const uint64_t page = one->layout.page_bytes;
    EngineOptions options{.n_ctx = 256, .max_running = 8};
    EXPECT_EQ(plan_cache_size(*one, options, 0)->n_pages, 32);
    EXPECT_EQ(plan_cache_size(*one, options, 1000 * page)->n_pages, 32);
    EXPECT_EQ(plan_cache_size(*one, options, 16 * page)->n_pages, 15);  // a part is spared
    EXPECT_EQ(plan_cache_size(*one, options, page)->n_pages, 4);        // one context in any case
    options.kv_bytes = 7 * page + 1;
    EXPECT_EQ(plan_cache_size(*one, options, page)->n_pages, 7);
    options.kv_bytes = 4 * page - 1;
    EXPECT_FALSE(plan_cache_size(*one, options, 0).has_value());
}

}  // namespace
}  // namespace tessera::engine
