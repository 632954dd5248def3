// Searches tile sizes: every distinct split of rows and inputs, with the largest number of outputs that fits
// and a half and a quarter of it. Each candidate's time is that of its own instructions (cost.cpp).
#include "src/npu/tile_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "src/npu/cost.h"
#include "src/npu/layout.h"
#include "src/npu/linear_stream.h"
#include "src/npu/vtcm.h"

namespace tessera::npu {

namespace {

/// Buffer bytes of one piece.
struct PieceBytes {
    int64_t act, packed, mult, weights, records, out, sums;
};

PieceBytes piece_bytes(const LinearShape& shape, const TileSizes& size) {
    const bool has_blocks = shape.block > 0, keeps_sums = size.k_tiles < shape.k_tiles();
    const int64_t packed = size.n_tiles * size.k_tiles *
                           (shape.is_cached ? kWeightTileBytes
                            : has_blocks    ? kNibbleTileBytes
                                            : 0);
    return {.act = size.row_tiles * shape.planes_in * size.k_tiles * kActTileBytes,
            .packed = packed,
            .mult = has_blocks ? size.n_tiles * n_mult_bytes(size.k_tiles, shape.block) : 0,
            .weights = size.n_tiles * size.k_tiles * kWeightTileBytes,
            .records = size.n_tiles * kRecordTileBytes,
            .out = size.row_tiles * shape.planes_out * size.n_tiles * kActTileBytes,
            .sums = keeps_sums ? size.row_tiles * size.n_tiles * kSumTileBytes : 0};
}

/// A single piece of activations is loaded only once.
int act_buffers(const LinearShape& shape, const TileSizes& size) {
    return size.row_tiles < shape.row_tiles() || size.k_tiles < shape.k_tiles() ? 2 : 1;
}

/// Predicted time and descriptors. With many outputs they are extrapolated from streams of the first ones:
/// each further piece takes as long as the last ones.
void estimate(const LinearShape& shape, const HtpDevice& device, TilePlan& plan) {
    constexpr int64_t kFew = 2, kMany = 2 * kFew;
    const int64_t n_pieces = tiles(shape.n_tiles(), plan.size.n_tiles);
    const auto of_pieces = [&](int64_t n) {
        LinearShape part = shape;
        part.n_out = std::min(shape.n_out, n * plan.size.n_tiles * kTileChannels);
        return predict(linear_stream(part, plan, {}), device);
    };
    const Timeline many = of_pieces(kMany);
    plan.estimated_us = many.total_us;
    plan.n_descriptors = many.n_descriptors;
    if (n_pieces <= kMany) return;
    const Timeline few = of_pieces(kFew);
    const double times = static_cast<double>(n_pieces - kMany) / (kMany - kFew);
    plan.estimated_us += times * (many.total_us - few.total_us);
    plan.n_descriptors += std::llround(times * static_cast<double>(many.n_descriptors - few.n_descriptors));
}

/// Piece sizes that split `n` tiles into 1, 2, 3 ... equal parts, each a multiple of `unit`.
std::set<int64_t> equal_parts(int64_t n, int64_t unit) {
    std::set<int64_t> sizes;
    for (int64_t parts = 1; parts <= n; parts += std::max<int64_t>(1, parts / 4))
        sizes.insert(std::min(n, tiles(tiles(n, parts), unit) * unit));
    return sizes;
}

/// Upper bound of the output tiles that fit next to the activations, ignoring alignment.
int64_t most_n_tiles(const LinearShape& shape, TileSizes size, int64_t vtcm_bytes) {
    size.n_tiles = 1;
    const PieceBytes one = piece_bytes(shape, size);
    const int64_t each = 2 * (one.packed + one.mult + one.weights + one.records + one.out) + one.sums;
    const int64_t left = vtcm_bytes - act_buffers(shape, size) * one.act;
    return std::min(shape.n_tiles(), left / each);
}

}  // namespace

int64_t packet_tiles(int64_t k_tiles, int64_t piece, const HtpDevice& device) {
    if (device.vtcm_span_bytes == 0) return device.hmx_deep_k_tiles;
    const int64_t most = std::min(device.hmx_deep_k_tiles, device.vtcm_span_bytes / kActTileBytes);
    const auto largest = std::bit_floor(static_cast<uint64_t>(most));
    const auto common = static_cast<uint64_t>(piece | k_tiles % piece);
    return static_cast<int64_t>(std::min(largest, common & (~common + 1)));
}

int64_t LinearShape::row_tiles() const { return tiles(rows, kTileRows); }
int64_t LinearShape::n_tiles() const { return tiles(n_out, kTileChannels); }
int64_t LinearShape::k_tiles() const { return tiles(k_first + n_in, kTileChannels); }

Result<TilePlan> place_tiles(const LinearShape& shape, const TileSizes& size, const HtpDevice& device) {
    TilePlan plan;
    plan.size = size;
    plan.act_buffers = act_buffers(shape, size);
    plan.packet_k_tiles = packet_tiles(shape.k_tiles(), size.k_tiles, device);
    const PieceBytes bytes = piece_bytes(shape, size);
    const bool has_span = device.vtcm_span_bytes > 0;
    const int64_t act_unit = has_span ? plan.packet_k_tiles * kActTileBytes : kActTileBytes;
    const int64_t weight_unit = has_span ? plan.packet_k_tiles * kWeightTileBytes : 128;
    VtcmAllocator vtcm(device.vtcm_bytes);
    for (int i = 0; i < 2; ++i) {
        if (i < plan.act_buffers) {
            TSR_TRY(plan.act[i], vtcm.take("activations", bytes.act, act_unit));
        } else {
            plan.act[i] = plan.act[0];
        }
        TSR_TRY(plan.out[i], vtcm.take("outputs", bytes.out, kActTileBytes));
        TSR_TRY(plan.weights[i], vtcm.take("weights", bytes.weights, weight_unit));
        TSR_TRY(plan.packed[i], vtcm.take("packed weights", bytes.packed, 128));
        TSR_TRY(plan.mult[i], vtcm.take("multipliers of weights", bytes.mult, 128));
        TSR_TRY(plan.records[i], vtcm.take("factors of outputs", bytes.records, 128));
    }
    TSR_TRY(plan.sums, vtcm.take("sums", bytes.sums, 128));
    plan.vtcm_bytes = vtcm.peak();
    estimate(shape, device, plan);
    return plan;
}

Result<TilePlan> plan_linear(const LinearShape& shape, const HtpDevice& device) {
    // A block of 64 inputs is two tiles, and its multipliers must not be split.
    const int64_t k_unit = shape.block > kTileChannels ? shape.block / kTileChannels : 1;
    Result<TilePlan> best = place_tiles(shape, {1, 1, std::min(k_unit, shape.k_tiles())}, device);
    if (!best) return best;
    const std::set<int64_t> k_sizes = equal_parts(shape.k_tiles(), k_unit);
    bool found = false;
    for (auto k = k_sizes.rbegin(); k != k_sizes.rend(); ++k) {
        // Partial sums in VTCM are the last resort.
        if (found && *k_sizes.rbegin() == best->size.k_tiles) break;
        for (const int64_t rows : equal_parts(shape.row_tiles(), 1)) {
            const int64_t most = most_n_tiles(shape, {rows, 1, *k}, device.vtcm_bytes);
            for (int64_t n = most; n >= 1 && n >= most / 4; n /= 2) {
                // Alignment may exceed the bound by bytes.
                auto plan = place_tiles(shape, {rows, n, *k}, device);
                if (!plan) continue;
                const bool better =
                    plan->estimated_us < best->estimated_us ||
                    (plan->estimated_us == best->estimated_us && plan->n_descriptors < best->n_descriptors);
                if (better || !found) best = std::move(plan);
                found = true;
            }
        }
    }
    return best;
}

}  // namespace tessera::npu
