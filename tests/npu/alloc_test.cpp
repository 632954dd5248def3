// An emulator allocates nothing on the heap after its construction.
#include <gtest/gtest.h>

#include "tests/npu/device_support.h"
#include "tests/npu/linear_case.h"
#include "tests/support/count_allocations.h"

namespace tessera::npu {
namespace {

TEST(Emulator, RunningAllocatesNothing) {
    test::Draw draw(1);
    test::LinearCase c(draw, 70, 300, 100, {WeightRecipe::Kind::Lpbq, 32}, 16, 16);
    const HtpDevice device = *open_device("toy");
    const auto plan = plan_linear(c.shape, device);
    ASSERT_TRUE(plan);
    ASSERT_LT(plan->size.k_tiles, c.shape.k_tiles());  // with sums that are kept, too
    const Stream stream = c.stream(*plan);
    const Memory memory = {std::span(c.blob.bytes), std::span(c.arena), {}};
    ThreadPool pool(3);
    auto emulator = Emulator::create(device.vtcm_bytes, kTilesScalar, pool);
    ASSERT_TRUE(emulator);
    const uint64_t before = tessera::test::n_allocations;
    for (int i = 0; i < 3; ++i) emulator->run(stream, memory);
    EXPECT_EQ(tessera::test::n_allocations, before);
    std::vector<uint16_t> y(c.expected.size());
    unpack_activations(c.out, std::span(c.arena).subspan(static_cast<size_t>(c.in.bytes())), y.data());
    EXPECT_EQ(y, c.expected);
}

TEST(DeviceRun, RunningAllocatesNothing) {
    using tessera::test::shared;
    ThreadPool pool(3);
    auto model = tessera::test::load_model(tessera::test::model_file("llama"), pool, "", false);
    ASSERT_TRUE(model) << model.error().message;
    test::DeviceCase c(**model, pool, "toy", "w4a16", {1, 32}, {64, 320});
    ASSERT_TRUE(c.reference);
    const auto run = c.run(test::best_kernels(), pool);
    const auto fast = c.run(test::best_kernels(), pool, DeviceRun::Copies::LeftOut);
    test::Draw draw(1);
    const DeviceModel& compiled = c.compiled.model;
    const test::PassData inputs = test::any_inputs(draw, compiled, 32);
    test::PassData outputs = test::outputs_of(*run, compiled, {32, 0}, inputs);
    std::vector<std::vector<const float*>> from;
    std::vector<std::vector<float*>> to;
    for (size_t s = 0; s < inputs.size(); ++s) {
        from.emplace_back();
        for (const auto& x : inputs[s]) from.back().push_back(x.data());
        to.emplace_back();
        for (auto& y : outputs[s]) to.back().push_back(y.data());
    }
    // A prompt whose last pass is padded, and 256 tokens.
    const uint64_t before = tessera::test::n_allocations;
    for (DeviceRun* one : {run.get(), fast.get()})
        for (size_t s = 0; s < from.size(); ++s) {
            one->run(s, {32, 0}, from[s], to[s]);
            one->run(s, {20, 32}, from[s], to[s]);
            for (int64_t i = 0; i < 256; ++i) one->run(s, {1, 52 + i}, from[s], to[s]);
        }
    EXPECT_EQ(tessera::test::n_allocations, before);
}

}  // namespace
}  // namespace tessera::npu
