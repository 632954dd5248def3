// From rows of weights to tiles. Where a byte of a tile lies is layout.h's.
#include "src/npu/weight_blob.h"

#include <cstring>

#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

int64_t aligned(int64_t n) { return (n + 127) / 128 * 128; }

void put_weight(const WeightBlob& blob, const QuantizedWeights& w, int64_t n, int64_t k, std::byte* tile) {
    const int64_t row = k % kTileChannels, column = n % kTileChannels;
    const auto code = static_cast<uint8_t>(w.q[static_cast<size_t>(n * w.n_in + k)]);
    if (blob.block == 0) {
        tile[weight_tile_offset(row, column)] = std::byte{code};
        return;
    }
    const NibblePlace place = nibble_place(row, column);
    tile[place.byte] |= static_cast<std::byte>((code & 15) << (place.high ? 4 : 0));
}

int64_t mult_bytes_of(const WeightBlob& blob) {
    return blob.block ? n_mult_bytes(blob.k_tiles, blob.block) : 0;
}

/// Where everything is, without the bytes.
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

WeightBlob make_weight_blob(const Linear& op) {
    const QuantizedWeights& w = *op.weights;
    WeightBlob blob = layout_of(w.recipe, w.n_out, w.n_in);
    const int64_t mult_bytes = mult_bytes_of(blob);
    blob.bytes.resize(static_cast<size_t>(weight_blob_bytes(w.recipe, w.n_out, w.n_in)));

    const int64_t n_blocks = w.recipe.n_blocks(w.n_in);
    for (int64_t n = 0; n < w.n_out; ++n) {
        const int64_t n_tile = n / kTileChannels, column = n % kTileChannels;
        std::byte* row = blob.bytes.data() + n_tile * blob.k_tiles * blob.tile_bytes;
        for (int64_t k = 0; k < w.n_in; ++k)
            put_weight(blob, w, n, k, row + k / kTileChannels * blob.tile_bytes);
        std::byte* mult = blob.bytes.data() + blob.mult_offset + n_tile * mult_bytes;
        for (int64_t b = 0; b < n_blocks; ++b)
            mult[b * kTileChannels + column] =
                static_cast<std::byte>(w.block_mult[static_cast<size_t>(n * n_blocks + b)]);
    }
    for (int64_t n = 0; n < blob.n_tiles * kTileChannels; ++n) {
        const Requant record = n < w.n_out ? op.requant[static_cast<size_t>(n)] : Requant{};
        std::memcpy(blob.bytes.data() + blob.record_offset + n * static_cast<int64_t>(sizeof record), &record,
                    sizeof record);
    }
    return blob;
}

}  // namespace tessera::npu
