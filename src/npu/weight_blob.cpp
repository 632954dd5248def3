// Converts rows of weights to tiles. layout.h defines the offsets within a tile.
#include "src/npu/weight_blob.h"

#include <algorithm>
#include <cstring>

#include "src/npu/layout.h"
#include "src/npu/share_work.h"

namespace tessera::npu {

namespace {

int64_t aligned(int64_t n) { return (n + 127) / 128 * 128; }

/// Writes four adjacent inputs of an output: codes q of the inputs from k on, up to the last one.
void put_weights(const WeightBlob& blob, const int8_t* q, int64_t n, int64_t k, int64_t column,
                 std::byte* tile) {
    const int64_t row = k % kTileChannels;
    if (blob.block == 0) {
        std::memcpy(tile + weight_tile_offset(row, column), q, static_cast<size_t>(n));
        return;
    }
    const NibblePlace place = nibble_place(row, column);
    for (int64_t i = 0; i < n; ++i)
        tile[place.byte + i] |=
            static_cast<std::byte>((static_cast<uint8_t>(q[i]) & 15) << (place.high ? 4 : 0));
}

/// The record that converts the sum of output n to a code; zeros past the last output.
void put_record(const Linear& op, int64_t n, WeightBlob& blob) {
    std::byte* at = blob.bytes.data() + blob.record_offset + n * static_cast<int64_t>(sizeof(Requant));
    const bool is_output = n < op.weights->n_out;
    const Requant record = is_output ? op.requant[static_cast<size_t>(n)] : Requant{};
    if (op.mode == OutputMode::Exact) {
        std::memcpy(at, &record, sizeof record);
        return;
    }
    const HmxRequant of_hmx{.bias = record.bias,
                            .weight_sum = is_output ? op.weight_sums[static_cast<size_t>(n)] : 0,
                            .mult = static_cast<uint16_t>(record.mult),
                            .shift = static_cast<uint16_t>(record.shift)};
    std::memcpy(at, &of_hmx, sizeof of_hmx);
}

int64_t mult_bytes_of(const WeightBlob& blob) {
    return blob.block ? n_mult_bytes(blob.k_tiles, blob.block) : 0;
}

/// Tiles, multipliers and records of 32 outputs.
void put_tiles(const Linear& op, int64_t n_tile, WeightBlob& blob) {
    const QuantizedWeights& w = *op.weights;
    const int64_t n_blocks = w.recipe.n_blocks(w.n_in), first = n_tile * kTileChannels;
    std::byte* tiles = blob.bytes.data() + n_tile * blob.k_tiles * blob.tile_bytes;
    std::byte* mult = blob.bytes.data() + blob.mult_offset + n_tile * mult_bytes_of(blob);
    for (int64_t n = first; n < std::min(first + kTileChannels, w.n_out); ++n) {
        const int8_t* q = w.q.data() + n * w.n_in;
        for (int64_t k = 0; k < w.n_in; k += 4)
            put_weights(blob, q + k, std::min<int64_t>(4, w.n_in - k), k, n - first,
                        tiles + k / kTileChannels * blob.tile_bytes);
        for (int64_t b = 0; b < n_blocks; ++b)
            mult[b * kTileChannels + n - first] =
                static_cast<std::byte>(w.block_mult[static_cast<size_t>(n * n_blocks + b)]);
    }
    for (int64_t n = first; n < first + kTileChannels; ++n) put_record(op, n, blob);
}

/// Offsets of the parts, without the bytes.
WeightBlob layout_of(const WeightRecipe& recipe, int64_t n_out, int64_t n_in) {
    WeightBlob blob;
    blob.n_tiles = tiles(n_out, kTileChannels);
    blob.k_tiles = tiles(n_in, kTileChannels);
    blob.block = recipe.has_blocks() ? recipe.block : 0;
    blob.tile_bytes = blob.block ? kNibbleTileBytes : kWeightTileBytes;
    blob.mult_offset = aligned(blob.n_tiles * blob.k_tiles * blob.tile_bytes);
    blob.record_offset = aligned(blob.mult_offset + blob.n_tiles * mult_bytes_of(blob));
    return blob;
}

}  // namespace

int64_t weight_blob_bytes(const WeightRecipe& recipe, int64_t n_out, int64_t n_in) {
    const WeightBlob blob = layout_of(recipe, n_out, n_in);
    return blob.record_offset + blob.n_tiles * kRecordTileBytes;
}

Result<WeightBlob> make_weight_blob(const Linear& op, ThreadPool* pool) {
    const QuantizedWeights& w = *op.weights;
    WeightBlob blob = layout_of(w.recipe, w.n_out, w.n_in);
    blob.bytes.resize(static_cast<size_t>(weight_blob_bytes(w.recipe, w.n_out, w.n_in)));
    TSR_TRY_VOID(share_work(pool, blob.n_tiles, [&](int64_t n_tile) { put_tiles(op, n_tile, blob); }));
    return blob;
}

}  // namespace tessera::npu
