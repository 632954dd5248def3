// Reads rows and values from their planes as 16-bit codes, computes, and writes them back. Operands are
// checked in advance (operands.cpp); no content of VTCM causes undefined behaviour.
#include "src/npu/vector_unit.h"

#include <algorithm>
#include <cstring>

#include "src/npu/attention.h"
#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

constexpr int64_t kMostRowValues = 1 << 16;
/// Values that a thread processes at a time, where rows do not matter.
constexpr int64_t kChunk = 1024;

/// One row of [planes, channel tiles, rows, 32].
struct RowPlace {
    int64_t planes, rows, dim;

    int64_t plane_bytes() const { return tiles(dim, kTileChannels) * rows * kTileChannels; }
    template <class Fn>
    void each_tile(int64_t row, const Fn& fn) const {
        for (int64_t first = 0; first < dim; first += kTileChannels)
            fn(first * rows + row * kTileChannels, first, std::min(kTileChannels, dim - first));
    }
};

/// Converts n values between codes and bytes, or high and low bytes in two planes.
void fetch(const uint8_t* high, const uint8_t* low, int64_t n, uint16_t* codes) {
    if (!low) {
        for (int64_t i = 0; i < n; ++i) codes[i] = high[i];
    } else {
        for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<uint16_t>(high[i] << 8 | low[i]);
    }
}
void put(const uint16_t* codes, int64_t n, uint8_t* high, uint8_t* low) {
    if (!low) {
        for (int64_t i = 0; i < n; ++i) high[i] = static_cast<uint8_t>(codes[i]);
    } else {
        for (int64_t i = 0; i < n; ++i) {
            high[i] = static_cast<uint8_t>(codes[i] >> 8);
            low[i] = static_cast<uint8_t>(codes[i]);
        }
    }
}

/// The second plane, or null.
template <class Byte>
Byte* low_plane(Byte* high, int bits, int64_t plane_bytes) {
    return bits == 16 ? high + plane_bytes : nullptr;
}

Requant exact_record(const Interleave& i, const Requant& before, int32_t sum) {
    const auto bias = static_cast<uint64_t>(before.bias) + static_cast<uint64_t>(product(sum, i.centre));
    return {.bias = static_cast<int64_t>(bias), .mult = i.factor.mult, .shift = i.factor.shift};
}

HmxRequant hmx_record(const Interleave& i, const HmxRequant& before, int32_t sum) {
    const auto bias = static_cast<uint64_t>(before.bias) + static_cast<uint64_t>(product(sum, i.centre));
    const auto weight_sum = static_cast<uint32_t>(before.weight_sum) + static_cast<uint32_t>(sum);
    return {.bias = static_cast<int64_t>(bias),
            .weight_sum = static_cast<int32_t>(weight_sum),
            .mult = static_cast<uint16_t>(i.factor.mult),
            .shift = static_cast<uint16_t>(i.factor.shift)};
}

/// Calls make(i, previous record, sum of further weights).
template <class Record>
void add_to_record(const Interleave& i, int32_t sum, std::byte* at,
                   Record (*make)(const Interleave&, const Record&, int32_t)) {
    Record record;
    if (!i.first) std::memcpy(&record, at, sizeof record);
    record = make(i, record, sum);
    std::memcpy(at, &record, sizeof record);
}

}  // namespace

size_t VectorUnit::scratch_bytes(int n_threads) {
    return static_cast<size_t>(n_threads) * 2 * kMostRowValues * sizeof(uint16_t);
}

Result<VectorUnit> VectorUnit::create(const TileKernels& kernels, ThreadPool& pool) {
    VectorUnit unit;
    unit.kernels_ = &kernels;
    unit.pool_ = &pool;
    TSR_TRY(unit.scratch_,
            Buffer::create(scratch_bytes(pool.n_threads()), "rows of the emulated vector unit"));
    return unit;
}

void VectorUnit::execute(const Instruction& instruction, const Places& places, const Pass& pass) {
    places_ = places;
    pass_ = pass;
    Instruction::visit(instruction, [this](const auto& operands) { run(operands); });
}

template <class Fn>
void VectorUnit::each_row(uint32_t x, const Encoding& of_x, uint32_t y, const Encoding& of_y, uint32_t rows,
                          uint32_t dim, const Fn& fn) {
    const RowPlace place_x{of_x.bits / 8, rows, dim}, place_y{of_y.bits / 8, rows, dim};
    const uint8_t* x_high = at<const uint8_t>(x);
    const uint8_t* x_low = low_plane(x_high, of_x.bits, place_x.plane_bytes());
    uint8_t* y_high = at<uint8_t>(y);
    uint8_t* y_low = low_plane(y_high, of_y.bits, place_y.plane_bytes());
    pool_->run(rows, [&](int64_t row, int worker) {
        uint16_t* codes = scratch_.as<uint16_t>() + int64_t{worker} * 2 * kMostRowValues;
        uint16_t* result = codes + kMostRowValues;
        place_x.each_tile(row, [&](int64_t from, int64_t channel, int64_t n) {
            fetch(x_high + from, x_low ? x_low + from : nullptr, n, codes + channel);
        });
        fn(codes, result, row);
        place_y.each_tile(row, [&](int64_t to, int64_t channel, int64_t n) {
            put(result + channel, n, y_high + to, y_low ? y_low + to : nullptr);
        });
    });
}

void VectorUnit::run(const Expand& e) {
    const int64_t packed_row = e.k_tiles * kNibbleTileBytes, mult_row = n_mult_bytes(e.k_tiles, e.block);
    const Places::Place packed = places_.find(e.packed, packed_row), mult = places_.find(e.mult, mult_row);
    auto* weights = at<int8_t>(e.weights);
    pool_->run(e.n_tiles, [&](int64_t n, int) {
        kernels_->expand(reinterpret_cast<const uint8_t*>(packed.at + n * packed.stride),
                         reinterpret_cast<const int8_t*>(mult.at + n * mult.stride), e.k_tiles, e.block,
                         weights + n * e.k_tiles * kWeightTileBytes);
    });
}

void VectorUnit::run(const Interleave& i) {
    const Places::Place from = places_.find(i.bytes, i.stride);
    const auto* bytes = reinterpret_cast<const uint8_t*>(from.at);
    auto* weights = at<int8_t>(i.weights);
    auto* records = at<std::byte>(i.records);
    pool_->run(i.n_tiles, [&](int64_t tile, int) {
        int8_t* to = weights + tile * i.k_tiles * kWeightTileBytes;
        const int64_t first = tile * kTileChannels, n_k = i.n_k, k_first = i.k_first;
        const int64_t n_n = std::min<int64_t>(kTileChannels, i.n_n - first);
        int32_t sums[kTileChannels] = {};
        if (n_n == kTileChannels && k_first % 4 == 0 && n_k % 4 == 0) {
            // Rows of four inputs of a tile are contiguous, and so are tiles.
            int8_t* begin = to + k_first * kTileChannels;
            std::fill(to, begin, int8_t{0});
            kernels_->interleave(bytes + first, from.stride, n_k / 4, begin, sums);
            std::fill(begin + n_k * kTileChannels, to + i.k_tiles * kWeightTileBytes, int8_t{0});
        } else {
            std::fill_n(to, i.k_tiles * kWeightTileBytes, int8_t{0});
            for (int64_t k = 0; k < n_k; ++k)
                for (int64_t n = 0; n < n_n; ++n) {
                    const auto weight = static_cast<int8_t>(bytes[k * from.stride + first + n] - 128);
                    const int64_t row = k_first + k;
                    to[row / kTileChannels * kWeightTileBytes + weight_tile_offset(row % kTileChannels, n)] =
                        weight;
                    sums[n] += weight;
                }
        }
        for (int64_t n = 0; n < kTileChannels; ++n) {
            std::byte* at_record = records + (first + n) * static_cast<int64_t>(sizeof(Requant));
            if (i.hmx)
                add_to_record(i, sums[n], at_record, hmx_record);
            else
                add_to_record(i, sums[n], at_record, exact_record);
        }
    });
}

void VectorUnit::run(const Transpose& t) {
    const auto* x = at<const uint8_t>(t.x);
    auto* y = at<uint8_t>(t.y);
    for (int64_t tile = 0; tile < t.channel_tiles; ++tile)
        for (int64_t row = 0; row < t.rows; ++row)
            for (int64_t c = 0; c < kTileChannels; ++c)
                y[(tile * kTileChannels + c) * kTileRows + row] =
                    x[(tile * t.rows + row) * kTileChannels + c];
}

void VectorUnit::run(const NormRows& n) {
    const auto* gamma = at<const uint16_t>(n.gamma);
    each_row(n.x, n.factors.x, n.y, n.factors.y, n.rows, n.dim, [&](const uint16_t* x, uint16_t* y, int64_t) {
        for (uint32_t i = 0; i < n.dim; i += n.n) norm_row(n.factors, n.n, gamma, x + i, y + i);
    });
}

void VectorUnit::run(const RotateRows& r) {
    const auto* cos_sin = at<const int16_t>(r.cos_sin);
    const auto n_rot = r.factors.n_rot, head_dim = r.factors.head_dim;
    each_row(r.x, r.factors.x, r.y, r.factors.y, r.rows, r.dim,
             [&](const uint16_t* x, uint16_t* y, int64_t row) {
                 for (uint32_t i = 0; i < r.dim; i += static_cast<uint32_t>(head_dim))
                     rotate_head(r.factors, cos_sin + row * n_rot, x + i, y + i);
             });
}

void VectorUnit::run(const SoftmaxRows& s) {
    ExpTables tables;
    std::memcpy(&tables, at<const std::byte>(s.tables), sizeof tables);
    const Encoding of_x{.bits = static_cast<int>(8 * s.planes_x)};
    each_row(s.x, of_x, s.y, {}, s.rows, s.dim, [&](const uint16_t* x, uint16_t* y, int64_t row) {
        const int64_t position = pass_.n_past + s.first_row + row;
        softmax_row(tables, x, s.dim, Pass::first_seen(position, s.window), position + 1, y);
    });
}

void VectorUnit::run(const LookupValues& l) {
    const auto* table = at<const uint16_t>(l.table);
    const auto* x = at<const uint8_t>(l.x);
    const auto* x_low = l.planes_x == 2 ? x + l.n : nullptr;
    auto* y = at<uint8_t>(l.y);
    auto* y_low = l.planes_y == 2 ? y + l.n : nullptr;
    const int64_t n = l.n;
    pool_->run(tiles(n, kChunk), [&](int64_t chunk, int) {
        uint16_t codes[kChunk] = {}, result[kChunk] = {};
        const int64_t first = chunk * kChunk, count = std::min(kChunk, n - first);
        fetch(x + first, x_low ? x_low + first : nullptr, count, codes);
        fetch(y + first, y_low ? y_low + first : nullptr, count, result);
        for (int64_t i = 0; i < count; ++i)
            if (codes[i] >= l.begin && codes[i] < l.end) result[i] = table[codes[i] - l.begin];
        put(result, count, y + first, y_low ? y_low + first : nullptr);
    });
}

template <class Op, class Pair>
void VectorUnit::combine(const Pair& p, const Encoding& of_a, const Encoding& of_b, const Encoding& of_y) {
    const int64_t n = p.n;
    const auto *a = at<const uint8_t>(p.a), *b = at<const uint8_t>(p.b);
    const uint8_t *a_low = low_plane(a, of_a.bits, n), *b_low = low_plane(b, of_b.bits, n);
    auto* y = at<uint8_t>(p.y);
    auto* y_low = low_plane(y, of_y.bits, n);
    pool_->run(tiles(n, kChunk), [&](int64_t chunk, int) {
        uint16_t x[kChunk] = {}, z[kChunk] = {};
        const int64_t first = chunk * kChunk, count = std::min(kChunk, n - first);
        fetch(a + first, a_low ? a_low + first : nullptr, count, x);
        fetch(b + first, b_low ? b_low + first : nullptr, count, z);
        Op::apply(p.factors, x, z, count, z);
        put(z, count, y + first, y_low ? y_low + first : nullptr);
    });
}

}  // namespace tessera::npu
