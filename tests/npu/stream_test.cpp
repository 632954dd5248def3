// Waits: sufficient, none superfluous, and the effect of leaving one out. Bounds: refusals.
#include "src/npu/stream.h"

#include <gtest/gtest.h>

#include "src/npu/vtcm.h"
#include "tests/npu/linear_case.h"

namespace tessera::npu {
namespace {

using test::Draw;
using test::LinearCase;

struct Prepared {
    LinearCase c;
    HtpDevice device;
    TilePlan plan;
    Stream stream;

    Prepared(const WeightRecipe& recipe, const TileSizes& size, int64_t rows = 100)
        : c(draw(), rows, 256, 200, recipe, 16, 16),
          device(*open_device("x-elite")),
          plan(*place_tiles(c.shape, size, device)),
          stream(c.stream(plan)) {}

    static Draw& draw() {
        static Draw source(1);
        return source;
    }
};

/// Cuts along each dimension, alone and together.
constexpr TileSizes kSizes[] = {{2, 7, 8}, {2, 2, 8}, {1, 7, 8}, {1, 2, 8}, {2, 7, 2}, {1, 2, 2}, {2, 1, 4}};
constexpr WeightRecipe kKinds[] = {{WeightRecipe::Kind::Int8, 0}, {WeightRecipe::Kind::Lpbq, 64}};

TEST(Waits, AnyOrderThatKeepsThemGivesTheSameBits) {
    for (const WeightRecipe& recipe : kKinds)
        for (const TileSizes& size : kSizes) {
            Prepared p(recipe, size);
            EXPECT_EQ(find_hazard(p.stream), "");
            auto emulator = Emulator::create(p.device.vtcm_bytes, kTilesScalar, test::one_thread());
            std::vector<Order> orders = test::priorities();
            for (uint64_t seed = 0; seed < 4; ++seed)
                orders.push_back({.kind = Order::Kind::Random, .seed = seed});
            orders.push_back({});
            for (const Order& order : orders) ASSERT_EQ(p.c.run(p.stream, *emulator, order), p.c.expected);
        }
}

/// Every wait is needed: without it the check finds the hazard, and some order of the units gives another
/// result.
TEST(Waits, EachWaitIsNeeded) {
    int n_removed = 0;
    for (const WeightRecipe& recipe : kKinds)
        for (const TileSizes& size : {TileSizes{1, 2, 8}, TileSizes{2, 3, 2}}) {
            Prepared p(recipe, size);
            const auto orders = test::priorities();
            for (size_t i = 0; i < p.stream.size(); ++i)
                for (size_t u = 0; u < kUnits; ++u) {
                    if (p.stream[i].waits[u] == 0) continue;
                    Stream broken = p.stream;
                    broken[i].waits[u] = 0;
                    ++n_removed;
                    EXPECT_NE(find_hazard(broken), "") << "instruction " << i << ", unit " << u;
                    auto emulator = Emulator::create(p.device.vtcm_bytes, kTilesScalar, test::one_thread());
                    const bool differs = std::any_of(orders.begin(), orders.end(), [&](const Order& order) {
                        return p.c.run(broken, *emulator, order) != p.c.expected;
                    });
                    EXPECT_TRUE(differs) << "instruction " << i << ", unit " << u;
                }
        }
    EXPECT_GT(n_removed, 100);
}

TEST(Waits, TheBuilderOmitsImpliedWaits) {
    StreamBuilder builder;
    Instruction load, expand, multiply;
    load.op = Opcode::Load;
    load.transfer = {.ddr = 0,
                     .ddr_stride = 0,
                     .vtcm = 0,
                     .vtcm_stride = 0,
                     .rows = 1,
                     .row_bytes = 1024,
                     .region = Region::Arena,
                     .limit = {},
                     .past_stride = 0,
                     .first_row = 0};
    expand.op = Opcode::Expand;
    expand.expand = {.packed = 0, .mult = 512, .weights = 1024, .n_tiles = 1, .k_tiles = 1, .block = 16};
    multiply.op = Opcode::Multiply;
    multiply.multiply = {.act = 0,
                         .weights = 1024,
                         .records = 2048,
                         .out = 4096,
                         .sums = 0,
                         .rows = 1,
                         .n_tiles = 1,
                         .k_tiles = 1,
                         .packet_k_tiles = 1,
                         .zero_out = 0,
                         .planes_in = 1,
                         .planes_out = 1,
                         .first = true,
                         .last = true,
                         .hmx = false};
    builder.add(load);
    builder.add(expand);
    builder.add(multiply);
    builder.add(load);
    const Stream stream = builder.take();
    EXPECT_EQ(stream[1].waits, (Progress{1, 0, 0}));
    EXPECT_EQ(stream[2].waits, (Progress{0, 1, 0}));
    EXPECT_EQ(stream[3].waits, (Progress{0, 0, 1}));
}

std::string stream_refusal(const Stream& stream, const Bounds& bounds) {
    const auto checked = check_stream(stream, bounds);
    return checked ? "none" : checked.error().message;
}

TEST(Bounds, OversizedStreamsAreRefused) {
    Prepared p({WeightRecipe::Kind::Lpbq, 32}, {1, 2, 2});
    const Bounds sound = p.c.bounds(p.device);
    EXPECT_EQ(stream_refusal(p.stream, sound), "none");
    // A plan for one byte more than the VTCM has, and every region one byte too large.
    Bounds tight = sound;
    tight.vtcm_bytes = p.plan.vtcm_bytes;
    EXPECT_EQ(stream_refusal(p.stream, tight), "none");
    tight.vtcm_bytes -= 1;
    EXPECT_NE(stream_refusal(p.stream, tight).find("of VTCM are outside of its"), std::string::npos);
    for (const size_t r : {0, 1}) {
        tight = sound;
        tight.region_bytes[r] -= 1;
        EXPECT_NE(stream_refusal(p.stream, tight).find("outside"), std::string::npos) << r;
    }
    for (size_t i = 0; i < p.stream.size(); ++i) {
        constexpr uint32_t kFar = 0xfffff000u;
        for (int field = 0; field < 3; ++field) {
            Stream broken = p.stream;
            Instruction& it = broken[i];
            if (it.op == Opcode::Expand)
                (field == 0 ? it.expand.packed : field == 1 ? it.expand.n_tiles : it.expand.block) = kFar;
            else if (it.op == Opcode::Multiply)
                (field == 0 ? it.multiply.act : field == 1 ? it.multiply.rows : it.multiply.k_tiles) = kFar;
            else
                (field == 0   ? it.transfer.vtcm
                 : field == 1 ? it.transfer.rows
                              : it.transfer.row_bytes) = kFar;
            EXPECT_NE(stream_refusal(broken, sound), "none") << i << ", " << field;
        }
    }
    Stream forward = p.stream;
    forward[0].waits[2] = 1;
    EXPECT_NE(stream_refusal(forward, sound).find("waits for 1 instructions of HMX, of which 0"),
              std::string::npos);
}

/// Random changes of fields: a stream that is not refused runs in memory of exactly the checked size.
TEST(Bounds, AcceptedStreamsStayInBounds) {
    Prepared p({WeightRecipe::Kind::Lpbq, 32}, {1, 2, 2}, 70);
    p.device.vtcm_bytes = p.plan.vtcm_bytes;
    auto emulator = Emulator::create(p.device.vtcm_bytes, kTilesScalar, test::one_thread());
    Draw draw(4);
    int n_run = 0;
    for (int i = 0; i < 3000; ++i) {
        Stream changed(p.stream.begin(), p.stream.begin() + draw.integer(1, 40));
        Instruction& it =
            changed[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(changed.size()) - 1))];
        const auto any = static_cast<uint32_t>(draw.integer(0, int64_t{1} << draw.integer(0, 32)));
        Transfer& t = it.transfer;
        Expand& e = it.expand;
        Multiply& m = it.multiply;
        uint32_t* const of_transfer[] = {&t.vtcm, &t.vtcm_stride, &t.rows, &t.row_bytes};
        uint32_t* const of_expand[] = {&e.packed, &e.mult, &e.weights, &e.n_tiles, &e.k_tiles, &e.block};
        uint32_t* const of_multiply[] = {&m.act,  &m.weights, &m.records, &m.out,
                                         &m.sums, &m.rows,    &m.n_tiles, &m.k_tiles};
        const auto choose = [&](std::span<uint32_t* const> fields) {
            return fields[static_cast<size_t>(draw.integer(0, static_cast<int64_t>(fields.size()) - 1))];
        };
        *(it.op == Opcode::Expand     ? choose(of_expand)
          : it.op == Opcode::Multiply ? choose(of_multiply)
                                      : choose(of_transfer)) = any;
        if (it.op == Opcode::Load && draw.integer(0, 1)) t.ddr = any;
        if (!check_stream(changed, p.c.bounds(p.device))) continue;
        ++n_run;
        p.c.run(changed, *emulator, {});
    }
    EXPECT_GT(n_run, 300);
    Stream backward = p.stream;
    backward[0].op = Opcode::Store;
    backward[0].transfer.region = Region::Constants;
    EXPECT_NE(stream_refusal(backward, p.c.bounds(p.device)).find("a store there"), std::string::npos);
}

TEST(Bounds, AllocatorRefusesByName) {
    VtcmAllocator vtcm(4096);
    EXPECT_EQ(*vtcm.take("first", 100, 128), 0u);
    EXPECT_EQ(*vtcm.take("second", 100, 2048), 2048u);
    EXPECT_EQ(vtcm.peak(), 2148);
    const auto third = vtcm.take("third", 1949, 1);
    ASSERT_FALSE(third);
    EXPECT_EQ(third.error().code, ErrorCode::OutOfMemory);
    EXPECT_NE(third.error().message.find("third: expected at most 1.90 KiB"), std::string::npos)
        << third.error().message;
    EXPECT_EQ(*vtcm.take("fourth", 1948, 1), 2148u);
    ASSERT_EQ(vtcm.pieces().size(), 3u);
    // Past the end altogether.
    EXPECT_FALSE(vtcm.take("fifth", 0, 8192));
}

TEST(Bounds, PacketsStayWithinTheirSpan) {
    HtpDevice v69 = *open_device("sm8450");
    Draw draw(2);
    for (const int64_t n_in : {96, 1024, 1056, 3072}) {
        LinearCase c(draw, 3, n_in, 64, {WeightRecipe::Kind::Lpbq, 64}, 16, 16);
        const auto plan = plan_linear(c.shape, v69);
        ASSERT_TRUE(plan);
        const Stream stream = c.stream(*plan);
        EXPECT_EQ(stream_refusal(stream, c.bounds(v69)), "none");
        // Longer packets would cross.
        if (n_in != 3072) continue;
        Stream longer = stream;
        for (Instruction& instruction : longer)
            if (instruction.op == Opcode::Multiply) instruction.multiply.packet_k_tiles = 96;
        Bounds narrow = c.bounds(v69);
        narrow.span_bytes = 64 << 10;
        EXPECT_NE(stream_refusal(longer, narrow).find("crosses a multiple of 65536"), std::string::npos);
    }
}

TEST(Plan, PrefersWholeInputsAndStaysInside) {
    // Sizes of a model of 10^9 weights, prompt and decode.
    const HtpDevice x_elite = *open_device("x-elite"), toy = *open_device("toy");
    for (const int64_t rows : {1, 128})
        for (const auto& [n_in, n_out] :
             {std::pair<int64_t, int64_t>{2048, 8192}, {8192, 2048}, {2048, 128256}}) {
            const LinearShape shape{rows, n_in, n_out, 32, 2, 2};
            const auto large = plan_linear(shape, x_elite);
            ASSERT_TRUE(large);
            EXPECT_EQ(large->size.k_tiles, shape.k_tiles());
            EXPECT_EQ(large->size.row_tiles, shape.row_tiles());
            EXPECT_LE(large->vtcm_bytes, x_elite.vtcm_bytes);
            const auto small = plan_linear(shape, toy);
            ASSERT_TRUE(small);
            EXPECT_LE(small->vtcm_bytes, toy.vtcm_bytes);
            EXPECT_LT(small->size.k_tiles, shape.k_tiles());
        }
    HtpDevice tiny = toy;
    tiny.vtcm_bytes = 16 << 10;
    const auto none = plan_linear({128, 2048, 2048, 32, 2, 2}, tiny);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, ErrorCode::OutOfMemory);
}

}  // namespace
}  // namespace tessera::npu
