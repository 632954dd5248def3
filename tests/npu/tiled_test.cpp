// The tiled Linear through VTCM equals the plain one, for any cut and any kernel.
#include <set>

#include <gtest/gtest.h>

#include "src/npu/cost.h"
#include "tests/npu/linear_case.h"
#include "tests/support/environment.h"

namespace tessera::npu {
namespace {

using test::Draw;
using test::LinearCase;

HtpDevice device_with(int64_t vtcm_bytes) {
    HtpDevice device = *open_device("toy");
    device.vtcm_bytes = vtcm_bytes;
    return device;
}

const WeightRecipe& any_recipe(Draw& draw) {
    const auto recipes = weight_recipes();
    return recipes[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(recipes.size()) - 1))];
}

/// Mostly small sizes, which test as much and allow more cases.
int64_t any_size(Draw& draw, int64_t most) {
    return draw.integer(1, draw.integer(0, 3) == 0 ? most : std::max<int64_t>(1, most / 5));
}

/// A random cut that fits, or the one that the planner finds.
Result<TilePlan> any_plan(Draw& draw, const LinearShape& shape, const HtpDevice& device) {
    const int64_t unit = shape.block == 64 ? 2 : 1;
    TileSizes size = {draw.integer(1, shape.row_tiles()), draw.integer(1, shape.n_tiles()),
                      unit * draw.integer(1, tiles(shape.k_tiles(), unit))};
    size.k_tiles = std::min(size.k_tiles, shape.k_tiles());
    auto plan = place_tiles(shape, size, device);
    return plan && draw.integer(0, 3) > 0 ? plan : plan_linear(shape, device);
}

TEST(Tiled, EqualsTheReferenceForAnyCut) {
    const auto kernels = test::usable_kernels();
    Draw draw(1);
    const auto n_cases = static_cast<int>(tessera::test::size_of_environment("TSR_NPU_CASES", 1500));
    int n_cut_inputs = 0, n_cut_rows = 0;
    for (int i = 0; i < n_cases; ++i) {
        LinearCase c(draw, any_size(draw, 200), any_size(draw, 420), any_size(draw, 200), any_recipe(draw),
                     draw.integer(0, 2) ? 16 : 8, draw.integer(0, 2) ? 16 : 8,
                     draw.integer(0, 3) ? OutputMode::Exact : OutputMode::Hmx);
        HtpDevice device = device_with(int64_t{64 << 10} << draw.integer(0, 8));
        if (draw.integer(0, 3) == 0) device.vtcm_span_bytes = 4096 << draw.integer(0, 6);
        const auto plan = any_plan(draw, c.shape, device);
        ASSERT_TRUE(plan) << plan.error().message;
        n_cut_inputs += plan->size.k_tiles < c.shape.k_tiles();
        n_cut_rows += plan->size.row_tiles < c.shape.row_tiles();
        const Stream stream = c.stream(*plan);
        const auto checked = check_stream(stream, c.bounds(device));
        ASSERT_TRUE(checked) << checked.error().message;
        auto emulator = Emulator::create(device.vtcm_bytes, *kernels[static_cast<size_t>(i) % kernels.size()],
                                         test::one_thread());
        const Order order = {.kind = i % 2 ? Order::Kind::Random : Order::Kind::Written, .seed = uint64_t(i)};
        ASSERT_EQ(c.run(stream, *emulator, order), c.expected)
            << "case " << i << ": " << c.shape.rows << " x " << c.shape.n_in << " x " << c.shape.n_out << ", "
            << c.weights->recipe.name();
        ASSERT_EQ(c.run_direct(stream, *emulator), c.expected) << "case " << i << " without copies";
    }
    // The test is meaningful only if many cases were cut.
    EXPECT_GT(n_cut_inputs, n_cases / 5);
    EXPECT_GT(n_cut_rows, n_cases / 20);
}

TEST(Tiled, EdgesOfRows) {
    Draw draw(2);
    const auto kernels = test::usable_kernels();
    for (const int64_t rows : {1, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129})
        for (const auto* table : kernels) {
            LinearCase c(draw, rows, 96, 70, any_recipe(draw), 16, 16);
            const HtpDevice device = device_with(64 << 10);
            const Stream stream = c.stream(*plan_linear(c.shape, device));
            auto emulator = Emulator::create(device.vtcm_bytes, *table, test::one_thread());
            // Two runs: the leftovers of the first make no difference.
            for (int i = 0; i < 2; ++i) ASSERT_EQ(c.run(stream, *emulator, {}), c.expected) << rows;
        }
}

TEST(Tiled, AnyNumberOfThreads) {
    Draw draw(6);
    LinearCase c(draw, 130, 300, 400, {WeightRecipe::Kind::Lpbq, 16}, 16, 16);
    const HtpDevice device = device_with(256 << 10);
    for (const TileSizes& size : {TileSizes{1, 3, 10}, TileSizes{1, 2, 4}}) {
        const Stream stream = c.stream(*place_tiles(c.shape, size, device));
        for (int n_threads = 1; n_threads <= 16; ++n_threads) {
            ThreadPool pool(n_threads);
            auto emulator = Emulator::create(device.vtcm_bytes, kTilesScalar, pool);
            const Order order = {.kind = Order::Kind::Random, .seed = static_cast<uint64_t>(n_threads)};
            ASSERT_EQ(c.run(stream, *emulator, order), c.expected) << n_threads;
        }
    }
}

TEST(Tiled, TheDevicesSpeedChangesNoBit) {
    Draw draw(3);
    LinearCase c(draw, 70, 200, 150, {WeightRecipe::Kind::Lpbq, 32}, 16, 16);
    std::set<double> times;
    for (const double speed : {0.5, 5.0, 62.8, 900.0})
        for (const int64_t clock : {int64_t{100000000}, int64_t{9000000000}}) {
            HtpDevice device = device_with(96 << 10);
            device.dma_gb_per_s = speed;
            device.clock_hz = clock;
            const auto plan = plan_linear(c.shape, device);
            const Stream stream = c.stream(*plan);
            auto emulator = Emulator::create(device.vtcm_bytes, kTilesScalar, test::one_thread());
            EXPECT_EQ(c.run(stream, *emulator, {}), c.expected);
            times.insert(predict(stream, device).total_us);
        }
    EXPECT_GE(times.size(), 4u);
}

TEST(Tiled, KernelsAreEqualAtTheirLimits) {
    const auto kernels = test::usable_kernels();
    Draw draw(4);
    for (const int64_t k_tiles : {1, 7, 8, 9, 33})
        for (const int64_t rows : {1, 2, 3, 64}) {
            std::vector<uint8_t> act(static_cast<size_t>(2 * k_tiles * kActTileBytes));
            std::vector<int8_t> w(static_cast<size_t>(k_tiles * kWeightTileBytes));
            for (int extreme = 0; extreme < 3; ++extreme) {
                // All products as large as they get, of both signs, then any.
                for (uint8_t& v : act) v = extreme == 2 ? static_cast<uint8_t>(draw.integer(0, 255)) : 0;
                for (int8_t& v : w)
                    v = static_cast<int8_t>(extreme == 2 ? draw.integer(-128, 127) : extreme ? -128 : 127);
                for (const bool wide : {false, true}) {
                    std::vector<std::vector<int64_t>> results;
                    for (const auto* table : kernels) {
                        std::vector<int64_t> sums(static_cast<size_t>(rows * kTileChannels), 5);
                        table->multiply({act.data(), wide ? act.data() + k_tiles * kActTileBytes : nullptr,
                                         kActTileBytes, w.data(), k_tiles, rows, sums.data()});
                        results.push_back(sums);
                    }
                    for (const auto& other : results) ASSERT_EQ(other, results[0]);
                    if (extreme == 2 || !wide) continue;
                    ASSERT_EQ(results[0][0], 5 - 32768 * (extreme ? -128 : 127) * 32 * k_tiles);
                }
            }
        }
}

TEST(Tiled, ExpandGivesTheSameBytes) {
    Draw draw(5);
    for (const int64_t block : {16, 32, 64})
        for (const int64_t k_tiles : {1, 2, 5}) {
            std::vector<uint8_t> packed(static_cast<size_t>(k_tiles * kNibbleTileBytes));
            std::vector<int8_t> mult(static_cast<size_t>(n_mult_bytes(k_tiles, block)));
            for (uint8_t& v : packed) v = static_cast<uint8_t>(draw.integer(0, 255));
            for (int8_t& v : mult) v = static_cast<int8_t>(draw.integer(-128, 127));
            std::vector<std::vector<int8_t>> results;
            for (const auto* table : test::usable_kernels()) {
                results.emplace_back(static_cast<size_t>(k_tiles * kWeightTileBytes));
                table->expand(packed.data(), mult.data(), k_tiles, block, results.back().data());
                ASSERT_EQ(results.back(), results[0]);
            }
        }
}

TEST(Tiled, InterleaveGivesTheSameBytes) {
    Draw draw(7);
    for (const int64_t n_quads : {1, 8, 17})
        for (const int64_t stride : {32, 45}) {
            std::vector<uint8_t> bytes(static_cast<size_t>(4 * n_quads * stride));
            for (uint8_t& v : bytes) v = static_cast<uint8_t>(draw.integer(0, 255));
            std::vector<std::pair<std::vector<int8_t>, std::vector<int32_t>>> results;
            for (const auto* table : test::usable_kernels()) {
                auto& [w, sums] = results.emplace_back();
                w.resize(static_cast<size_t>(128 * n_quads));
                sums.assign(32, 5);
                table->interleave(bytes.data(), stride, n_quads, w.data(), sums.data());
                ASSERT_EQ(results.back(), results[0]);
            }
        }
}

}  // namespace
}  // namespace tessera::npu
