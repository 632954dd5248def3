// The model of time.
#include "src/npu/cost.h"

#include <gtest/gtest.h>

#include "tests/npu/linear_case.h"

namespace tessera::npu {
namespace {

TEST(Cost, DescriptorsByTheFieldsOfTheHardware) {
    HtpDevice device = *open_device("x-elite");
    Transfer t{.ddr = 0,
               .ddr_stride = 4096,
               .vtcm = 0,
               .vtcm_stride = 4096,
               .rows = 10,
               .row_bytes = 4096,
               .region = Region::Constants,
               .limit = {},
               .past_stride = 0,
               .first_row = 0};
    EXPECT_EQ(n_descriptors(t, device), 1);  // one piece
    t.ddr_stride = 8192;
    EXPECT_EQ(n_descriptors(t, device), 1);  // two dimensions
    t.ddr_stride = 70000;
    EXPECT_EQ(n_descriptors(t, device), 10);  // a stride of more than 16 bits
    device.dma_max_2d = 16777215;
    EXPECT_EQ(n_descriptors(t, device), 1);
    t = {.ddr = 0,
         .ddr_stride = 20 << 20,
         .vtcm = 0,
         .vtcm_stride = 20 << 20,
         .rows = 1,
         .row_bytes = 20 << 20,
         .region = Region::Constants,
         .limit = {},
         .past_stride = 0,
         .first_row = 0};
    EXPECT_EQ(n_descriptors(t, device), 2);  // a length of more than 24 bits
}

TEST(Cost, ATilesRowsCostTheSameHoweverFew) {
    const HtpDevice device = *open_device("x-elite");
    Instruction one;
    one.op = Opcode::Multiply;
    one.multiply = {};
    one.multiply.n_tiles = 10;
    one.multiply.k_tiles = 64;
    one.multiply.planes_in = 2;
    one.multiply.rows = 1;
    Instruction many = one;
    many.multiply.rows = 64;
    EXPECT_EQ(busy_us(one, device), busy_us(many, device));
    many.multiply.rows = 65;
    EXPECT_EQ(2 * busy_us(one, device), busy_us(many, device));
    many = one;
    many.multiply.planes_in = 1;
    EXPECT_EQ(busy_us(one, device), 2 * busy_us(many, device));
    // 64 * 32 * 10 outputs, 2048 inputs, two passes, 16384 products a cycle.
    EXPECT_NEAR(busy_us(one, device), 64.0 * 320 * 2048 * 2 / 16384 / 1373, 1e-9);
}

/// The scores of a softmax cost as much as fitted to the device's prompt speeds, but never less than their
/// bytes.
TEST(Cost, ASoftmaxCostsItsScores) {
    HtpDevice device = *open_device("sm8750");
    Instruction it;
    it.op = Opcode::Softmax;
    it.softmax = {};
    it.softmax.rows = 64;
    it.softmax.dim = 4096;
    it.softmax.planes_x = 2;
    EXPECT_NEAR(busy_us(it, device), 64.0 * 4096 / 12.6e9 * 1e6, 1e-9);
    const double moving = static_cast<double>(bytes_moved(it)) / (128 * 4) / 2100;
    EXPECT_GT(busy_us(it, device), 10 * moving);
    device.attention_elements_per_s = 1e15;
    EXPECT_NEAR(busy_us(it, device), moving, 1e-9);
}

/// A stream of a real shape: instructions of a unit do not overlap, none starts before those that it waits
/// for, and the total lies between the busiest unit and the sum of all units.
TEST(Cost, TimelineKeepsTheWaits) {
    const HtpDevice device = *open_device("x-elite");
    for (const int64_t rows : {1, 128}) {
        const LinearShape shape{rows, 2048, 8192, 32, 2, 2};
        const auto plan = plan_linear(shape, device);
        ASSERT_TRUE(plan);
        const Stream stream = linear_stream(shape, *plan, {});
        const Timeline time = predict(stream, device);
        ASSERT_EQ(time.intervals.size(), stream.size());
        std::array<std::vector<Interval>, kUnits> by_unit;
        for (size_t i = 0; i < stream.size(); ++i) {
            for (size_t u = 0; u < kUnits; ++u) {
                const uint32_t wait = stream[i].waits[u];
                const double end = wait > 0 ? by_unit[u][wait - 1].end_us : 0;
                EXPECT_GE(time.intervals[i].begin_us, end);
            }
            by_unit[static_cast<size_t>(unit_of(stream[i].op))].push_back(time.intervals[i]);
        }
        const double busiest = *std::max_element(time.unit_us.begin(), time.unit_us.end());
        EXPECT_GE(time.total_us, busiest);
        EXPECT_LE(time.total_us, 1.35 * busiest);
        EXPECT_NEAR(plan->estimated_us, time.total_us, 0.25 * time.total_us);
        // A prompt of 128 rows is bound by products, one row by reading the weights.
        EXPECT_EQ(time.bound(), rows == 128 ? Unit::Hmx : Unit::Dma);
        EXPECT_NEAR(time.unit_us[2] / time.unit_us[0], rows == 1 ? 0.67 : 1.03, 0.05);
        const double weights = 8192.0 * 2048 * (0.5 + 1 / 32.0) + 8192 * 16;
        EXPECT_NEAR(static_cast<double>(time.dma_bytes),
                    weights + static_cast<double>(rows) * 2 * (2048 + 8192), 1);
    }
}

}  // namespace
}  // namespace tessera::npu
