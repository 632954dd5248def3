// The device's units in software. Operands are checked in advance (stream.cpp), so nothing here can fail. A
// stream with a missing wait computes garbage but causes no undefined behaviour; tests rely on that.
#include "src/npu/emulator.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>

#include "common/rng.h"
#include "src/npu/layout.h"
#include "src/npu/linear.h"
#include "src/npu/requant.h"

namespace tessera::npu {

namespace {

constexpr std::byte kPattern{0xa5};

/// apply() for a record with arbitrary content: wraps and masks where a valid record cannot overflow.
int64_t requantize(const Requant& record, int64_t sum) {
    const int shift = record.shift & 63;
    const uint64_t product = (static_cast<uint64_t>(sum) + static_cast<uint64_t>(record.bias)) *
                             static_cast<uint64_t>(int64_t{record.mult});
    const uint64_t half = shift > 0 ? uint64_t{1} << (shift - 1) : 0;
    return std::bit_cast<int64_t>(product + half) >> shift;
}

/// The same in Hmx mode. has_low: 16-bit activations.
int64_t requantize(const HmxRequant& record, int64_t sum, bool has_low) {
    const Requant factor{.bias = 0, .mult = record.mult, .shift = record.shift};
    const auto bytes =
        static_cast<uint64_t>(sum) + static_cast<uint64_t>(product(record.weight_sum, centre(16)));
    const int64_t whole =
        has_low ? hmx_sum(0, std::bit_cast<int64_t>(bytes), record.bias)
                : std::bit_cast<int64_t>(static_cast<uint64_t>(sum) + static_cast<uint64_t>(record.bias));
    return requantize(factor, whole);
}

}  // namespace

Result<Emulator> Emulator::create(int64_t vtcm_bytes, const TileKernels& kernels, ThreadPool& pool) {
    Emulator emulator;
    TSR_TRY(emulator.vtcm_, Buffer::create(static_cast<size_t>(vtcm_bytes), "emulated VTCM"));
    std::fill_n(emulator.vtcm_.data(), emulator.vtcm_.size(), kPattern);
    TSR_TRY(emulator.vector_, VectorUnit::create(kernels, pool));
    emulator.kernels_ = &kernels;
    emulator.pool_ = &pool;
    return emulator;
}

void Emulator::run(const Stream& stream, const Memory& memory, const Pass& pass) {
    pass_ = pass;
    places_ = {.vtcm = vtcm_.data(), .memory = &memory};
    for (const Instruction& instruction : stream) execute(instruction, memory);
}

void Emulator::run(const DirectStream& stream, const Memory& memory, const Pass& pass) {
    pass_ = pass;
    places_ = {.vtcm = vtcm_.data(), .memory = &memory};
    for (const DirectInstruction& it : stream.instructions) {
        places_.redirects = stream.redirects_of(it);
        packed_ = it.block > 0 ? &it : nullptr;
        execute(it.instruction, memory);
    }
    packed_ = nullptr;
}

Result<void> Emulator::run_reordered(const Stream& stream, const Memory& memory, const Order& order,
                                     const Pass& pass) {
    pass_ = pass;
    places_ = {.vtcm = vtcm_.data(), .memory = &memory};
    std::array<std::vector<size_t>, kUnits> queues;
    for (size_t i = 0; i < stream.size(); ++i)
        queues[static_cast<size_t>(unit_of(stream[i].op))].push_back(i);
    Progress done = {};
    Rng rng(order.seed);
    for (size_t n = 0; n < stream.size(); ++n) {
        std::vector<size_t> ready;  // units in order of preference
        for (const Unit unit : order.units) {
            const auto u = static_cast<size_t>(unit);
            if (done[u] == queues[u].size()) continue;
            const Progress& waits = stream[queues[u][done[u]]].waits;
            const bool can_go = std::equal(waits.begin(), waits.end(), done.begin(), std::less_equal<>());
            if (can_go) ready.push_back(u);
        }
        if (ready.empty())
            return fail(ErrorCode::Malformed, "after %zu of %zu instructions all units wait for each other",
                        n, stream.size());
        size_t u = ready.front();
        if (order.kind == Order::Kind::Random) u = ready[rng.next_u64() % ready.size()];
        if (order.kind == Order::Kind::Written)
            u = *std::min_element(ready.begin(), ready.end(), [&](size_t a, size_t b) {
                return queues[a][done[a]] < queues[b][done[b]];
            });
        const Instruction& instruction = stream[queues[u][done[u]++]];
        execute(instruction, memory);
        free_operands(instruction);
    }
    return {};
}

void Emulator::execute(const Instruction& instruction, const Memory& memory) {
    switch (unit_of(instruction.op)) {
        case Unit::Dma:
            return transfer(instruction, memory);
        case Unit::Hvx:
            return vector_.execute(instruction, places_, pass_);
        case Unit::Hmx:
            return multiply(instruction.multiply);
    }
}

void Emulator::transfer(const Instruction& instruction, const Memory& memory) {
    const Transfer& t = instruction.transfer;
    const uint64_t at = t.ddr + static_cast<uint64_t>(pass_.n_past) * t.past_stride;
    const int64_t valid = std::max<int64_t>(0, pass_.n_valid - t.first_row);
    const int64_t rows = t.limit == Transfer::Limit::Rows ? std::min<int64_t>(t.rows, valid) : t.rows;
    const auto row_bytes = static_cast<size_t>(
        t.limit == Transfer::Limit::Bytes ? std::min<int64_t>(t.row_bytes, valid) : t.row_bytes);
    if (rows == 0 || row_bytes == 0) return;
    if (t.region == Region::Arena)
        arena_peak_ = std::max(arena_peak_, at + static_cast<uint64_t>(rows - 1) * t.ddr_stride + row_bytes);
    std::byte* ddr = memory[static_cast<size_t>(t.region)].data() + at;
    std::byte* vtcm = vtcm_.data() + t.vtcm;
    const bool is_load = instruction.op == Opcode::Load;
    const auto copy_row = [&](int64_t row, int) {
        std::byte* outside = ddr + static_cast<uint64_t>(row) * t.ddr_stride;
        std::byte* inside = vtcm + static_cast<uint64_t>(row) * t.vtcm_stride;
        std::memcpy(is_load ? inside : outside, is_load ? outside : inside, row_bytes);
    };
    // Small copies finish before other threads would have woken up.
    constexpr uint32_t kShared = 8 << 10;
    if (row_bytes >= kShared) return pool_->run(rows, copy_row);
    for (int64_t row = 0; row < rows; ++row) copy_row(row, 0);
}

void Emulator::multiply(const Multiply& m) {
    pool_->run(tiles(m.rows, kTileRows) * m.n_tiles,
               [&](int64_t unit, int) { multiply_tile(m, unit / m.n_tiles, unit % m.n_tiles); });
}

void Emulator::multiply_tile(const Multiply& m, int64_t row_tile, int64_t n_tile) {
    alignas(64) int64_t own[kTileRows * kTileChannels];
    const int64_t rows = std::min(m.rows - row_tile * kTileRows, kTileRows);
    const auto plane = [&](int64_t i) {
        const int64_t offset = (row_tile * m.planes_in + i) * m.k_tiles * kActTileBytes;
        return places_.find(m.act + static_cast<uint64_t>(offset), kActTileBytes);
    };
    const auto bytes = [](const Places::Place& place) { return reinterpret_cast<const uint8_t*>(place.at); };
    // Accumulators are internal to the unit unless they have to survive the instruction.
    int64_t* sums = own;
    if (!m.first || !m.last)
        sums = reinterpret_cast<int64_t*>(vtcm_.data() + m.sums +
                                          (row_tile * m.n_tiles + n_tile) * kSumTileBytes);
    if (m.first) std::fill_n(sums, rows * kTileChannels, int64_t{0});
    const Places::Place high = plane(0);
    const MultiplyArgs args{.high = bytes(high),
                            .low = m.planes_in == 2 ? bytes(plane(1)) : nullptr,
                            .act_stride = high.stride,
                            .w = nullptr,
                            .k_tiles = m.k_tiles,
                            .rows = rows,
                            .sums = sums};
    multiply_weights(m, n_tile, args);
    if (m.last) convert(m, row_tile, n_tile, rows, sums);
}

/// Packed weights are unpacked a few tiles at a time, which stay in L1.
void Emulator::multiply_weights(const Multiply& m, int64_t n_tile, MultiplyArgs args) {
    const Places::Place weights = places_.find(m.weights, int64_t{m.k_tiles} * kWeightTileBytes);
    const std::byte* at = weights.at + n_tile * weights.stride;
    if (!packed_) {
        args.w = reinterpret_cast<const int8_t*>(at);
        return kernels_->multiply(args);
    }
    const Places::Place of_mult = places_.of(packed_->mult);
    const auto* packed = reinterpret_cast<const uint8_t*>(at);
    const auto* mult = reinterpret_cast<const int8_t*>(of_mult.at + n_tile * of_mult.stride);
    const int64_t block = packed_->block;
    constexpr int64_t kMostPacked = 2056;
    if (args.rows == 1 && packed_->is_small && kernels_->multiply_packed && m.k_tiles <= kMostPacked)
        return kernels_->multiply_packed({.high = args.high,
                                          .low = args.low,
                                          .act_stride = args.act_stride,
                                          .packed = packed,
                                          .mult = mult,
                                          .block = block,
                                          .k_tiles = args.k_tiles,
                                          .sums = args.sums});
    constexpr int64_t kAtOnce = 8;  // whole blocks
    alignas(64) int8_t wide[kAtOnce * kWeightTileBytes];
    args.w = wide;
    for (int64_t k = 0; k < m.k_tiles; k += kAtOnce) {
        args.k_tiles = std::min<int64_t>(kAtOnce, m.k_tiles - k);
        kernels_->expand(packed + k * kNibbleTileBytes, mult + n_mult_bytes(k, block), args.k_tiles, block,
                         wide);
        kernels_->multiply(args);
        args.high += kAtOnce * args.act_stride;
        if (args.low) args.low += kAtOnce * args.act_stride;
    }
}

void Emulator::convert(const Multiply& m, int64_t row_tile, int64_t n_tile, int64_t rows,
                       const int64_t* sums) {
    Requant records[kTileChannels];
    HmxRequant hmx_records[kTileChannels];
    const std::byte* records_at = places_.find(m.records).at + n_tile * kRecordTileBytes;
    std::memcpy(records, records_at, sizeof records);
    std::memcpy(hmx_records, records_at, sizeof hmx_records);
    std::byte* planes[2] = {};
    for (int64_t i = 0; i < m.planes_out; ++i) {
        const int64_t offset = (row_tile * m.planes_out + i) * m.n_tiles * kActTileBytes;
        const Places::Place place = places_.find(m.out + static_cast<uint64_t>(offset), kActTileBytes);
        planes[i] = place.at + n_tile * place.stride;
    }
    const int64_t max = (1 << (8 * m.planes_out)) - 1;
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t n = 0; n < kTileChannels; ++n) {
            const int64_t sum = sums[row * kTileChannels + n];
            const int64_t scaled =
                m.hmx ? requantize(hmx_records[n], sum, m.planes_in == 2) : requantize(records[n], sum);
            // Clamped before the zero point is added, which could overflow on garbage.
            const int64_t q = std::clamp(scaled, -int64_t{m.zero_out}, max - m.zero_out) + m.zero_out;
            const int64_t at = act_tile_offset(row, n);
            if (planes[1]) planes[1][at] = static_cast<std::byte>(q & 255);
            planes[0][at] = static_cast<std::byte>(planes[1] ? q >> 8 : q);
        }
}

void Emulator::free_operands(const Instruction& instruction) {
    if (!instruction.frees_operands && !instruction.frees_activations) return;
    for (const Access& access : accesses(instruction, {})) {
        if (access.space != 0 || access.is_write) continue;
        const bool is_activation =
            instruction.op == Opcode::Multiply && access.begin == instruction.multiply.act;
        if (is_activation ? !instruction.frees_activations : !instruction.frees_operands) continue;
        // Sums belong to the unit until the last one; gaps between rows of a transfer may belong to other
        // operands.
        if (instruction.op == Opcode::Multiply && access.begin == instruction.multiply.sums) continue;
        const Transfer& t = instruction.transfer;
        const bool is_store = instruction.op == Opcode::Store;
        for (uint32_t row = 0; row < (is_store ? t.rows : 1); ++row)
            std::fill_n(vtcm_.data() + access.begin + (is_store ? uint64_t{row} * t.vtcm_stride : 0),
                        is_store ? t.row_bytes : access.end - access.begin, ~kPattern);
    }
}

}  // namespace tessera::npu
