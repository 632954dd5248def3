// Streams without their copies give the results of the stream as written, also where a transfer must be kept
// because its place is overwritten in between; and which transfers are left out.
#include "src/npu/direct_stream.h"

#include <gtest/gtest.h>

#include "src/npu/emulator.h"
#include "src/npu/layout.h"
#include "tests/npu/linear_case.h"

namespace tessera::npu {
namespace {

using test::Draw;

constexpr int64_t kArena = 512, kVtcm = 1024;
constexpr uint32_t kBytes = 64;

Instruction move(Opcode op, uint64_t ddr, uint32_t vtcm, uint32_t rows = 1, uint32_t row_bytes = kBytes) {
    Instruction it;
    it.op = op;
    it.transfer = {.ddr = ddr,
                   .ddr_stride = row_bytes,
                   .vtcm = vtcm,
                   .vtcm_stride = row_bytes,
                   .rows = rows,
                   .row_bytes = row_bytes,
                   .region = Region::Arena,
                   .limit = {},
                   .past_stride = 0,
                   .first_row = 0};
    return it;
}

Instruction add(uint32_t a, uint32_t b, uint32_t y) {
    static const Encoding e{.bits = 8, .scale = 1, .zero = 3};
    static const npu::Add::Factors factors = npu::Add::create(e, e, e)->factors();
    Instruction it;
    it.op = Opcode::Add;
    it.add = {.a = a, .b = b, .y = y, .n = kBytes, .factors = factors};
    return it;
}

/// The arena after a run of either form.
template <class AnyStream>
std::vector<std::byte> arena_after(const AnyStream& stream, std::vector<std::byte> arena) {
    auto emulator = Emulator::create(kVtcm, kTilesScalar, test::one_thread());
    const Memory memory = {std::span<std::byte>(), std::span(arena), {}};
    emulator->run(stream, memory);
    return arena;
}

std::vector<std::byte> any_bytes(Draw& draw) {
    std::vector<std::byte> out(kArena);
    for (std::byte& b : out) b = static_cast<std::byte>(draw.integer(0, 255));
    return out;
}

int64_t n_transfers(const DirectStream& stream) {
    return std::count_if(stream.instructions.begin(), stream.instructions.end(),
                         [](const auto& it) { return unit_of(it.instruction.op) == Unit::Dma; });
}

TEST(DirectStream, EqualsAnyStreamAsWritten) {
    Draw draw(1);
    int64_t n_before = 0, n_left = 0, n_run = 0;
    for (int i = 0; i < 4000; ++i) {
        Stream stream;
        // Few places, some of which overlap by half.
        const auto ddr = [&] { return static_cast<uint64_t>(32 * draw.integer(0, 14)); };
        const auto vtcm = [&] { return static_cast<uint32_t>(32 * draw.integer(0, draw.integer(2, 20))); };
        for (int64_t n = draw.integer(3, 40); n > 0; --n) {
            const bool halves = draw.integer(0, 5) == 0;
            const int64_t kind = draw.integer(0, 4);
            if (kind < 2)
                stream.push_back(add(vtcm(), vtcm(), vtcm()));
            else
                stream.push_back(move(kind < 4 ? Opcode::Load : Opcode::Store, ddr(), vtcm(), halves ? 2 : 1,
                                      halves ? kBytes / 2 : kBytes));
        }
        std::erase_if(stream, [](const Instruction& it) {
            return !check_stream({it},
                                 {.vtcm_bytes = kVtcm, .span_bytes = 0, .region_bytes = {0, kArena, 0}});
        });
        const DirectStream direct = direct_stream(stream, {});
        const auto arena = any_bytes(draw);
        ASSERT_EQ(arena_after(direct, arena), arena_after(stream, arena)) << i;
        n_run += std::ssize(stream);
        n_left += n_transfers(direct);
        n_before += std::count_if(stream.begin(), stream.end(),
                                  [](const Instruction& it) { return unit_of(it.op) == Unit::Dma; });
    }
    EXPECT_GT(n_run, 4000);
    EXPECT_LT(n_left, n_before);
}

TEST(DirectStream, LeavesOutUnneededTransfers) {
    const Stream plain = {move(Opcode::Load, 0, 0), move(Opcode::Load, 64, 64), add(0, 64, 128),
                          move(Opcode::Store, 128, 128)};
    EXPECT_EQ(n_transfers(direct_stream(plain, {})), 0);
    // The first operand is overwritten before it is used; the result is looked at before it is stored.
    const Stream written = {move(Opcode::Load, 0, 0),
                            move(Opcode::Load, 64, 64),
                            add(64, 64, 192),
                            move(Opcode::Store, 0, 192),
                            add(0, 64, 128),
                            move(Opcode::Load, 256, 256),
                            move(Opcode::Store, 256, 128),
                            add(256, 256, 320),
                            move(Opcode::Store, 320, 320)};
    const DirectStream direct = direct_stream(written, {});
    EXPECT_GE(n_transfers(direct), 2);
    Draw draw(2);
    const auto arena = any_bytes(draw);
    EXPECT_EQ(arena_after(direct, arena), arena_after(written, arena));
}

/// Weights that are multiplied for few rows stay packed; for many they are widened once.
TEST(DirectStream, WidensForManyRows) {
    Draw draw(3);
    for (const int64_t rows : {1, 8, 9, 130}) {
        test::LinearCase c(draw, rows, 256, 96, {WeightRecipe::Kind::Lpbq, 32}, 16, 16);
        const DirectStream direct =
            direct_stream(c.stream(*plan_linear(c.shape, *open_device("x-elite"))), c.blob.bytes);
        const auto widens = std::any_of(direct.instructions.begin(), direct.instructions.end(),
                                        [](const auto& it) { return it.instruction.op == Opcode::Expand; });
        EXPECT_EQ(widens, rows > 8) << rows;
        EXPECT_EQ(n_transfers(direct), 0) << rows;
    }
}

/// Possible only in a changed file: products of codes and multipliers that exceed a byte.
TEST(DirectStream, AnyMultipliersGiveTheSame) {
    Draw draw(4);
    test::LinearCase c(draw, 1, 96, 64, {WeightRecipe::Kind::Lpbq, 32}, 16, 16);
    const HtpDevice device = *open_device("x-elite");
    const Stream stream = c.stream(*plan_linear(c.shape, device));
    auto emulator = Emulator::create(device.vtcm_bytes, *test::usable_kernels().front(), test::one_thread());
    for (const int m : {16, -15, 17, -16, 127, -128}) {
        c.blob.bytes[static_cast<size_t>(c.blob.mult_offset) + 5] = static_cast<std::byte>(m);
        EXPECT_EQ(c.run_direct(stream, *emulator), c.run(stream, *emulator, {})) << m;
    }
}

}  // namespace
}  // namespace tessera::npu
