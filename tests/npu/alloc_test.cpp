// Once it is made, an emulator takes nothing more from the heap.
#include <gtest/gtest.h>

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
    std::vector<std::byte> output(static_cast<size_t>(c.out.bytes()));
    const Memory memory = {std::span(c.blob.bytes), std::span(c.input), std::span(output)};
    ThreadPool pool(3);
    auto emulator = Emulator::create(device.vtcm_bytes, kTilesScalar, pool);
    ASSERT_TRUE(emulator);
    const uint64_t before = tessera::test::n_allocations;
    for (int i = 0; i < 3; ++i) emulator->run(stream, memory);
    EXPECT_EQ(tessera::test::n_allocations, before);
    std::vector<uint16_t> y(c.expected.size());
    unpack_activations(c.out, output, y.data());
    EXPECT_EQ(y, c.expected);
}

}  // namespace
}  // namespace tessera::npu
