#pragma once
// Tile layouts of the matrix unit, and tensors in DDR made of tiles. An activation tile is 64 rows by 32
// channels of bytes; 16-bit activations have two planes, high bytes and low bytes. A weight tile is 32 inputs
// by 32 outputs, with four inputs of an output adjacent (docs/design/npu.md).
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::npu {

constexpr int64_t kTileRows = 64;
constexpr int64_t kTileChannels = 32;  ///< inputs or outputs
constexpr int64_t kActTileBytes = kTileRows * kTileChannels;
constexpr int64_t kWeightTileBytes = kTileChannels * kTileChannels;
constexpr int64_t kNibbleTileBytes = kWeightTileBytes / 2;
/// Sums of 64 rows by 32 outputs: 32 bits each for high and low bytes. The emulator stores their combined
/// 64-bit value.
constexpr int64_t kSumTileBytes = kTileRows * kTileChannels * 8;

/// Factors and biases of 32 outputs (src/npu/requant.h).
constexpr int64_t kRecordTileBytes = 32 * 16;

constexpr int64_t tiles(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

constexpr int64_t act_tile_offset(int64_t row, int64_t channel) { return kTileChannels * row + channel; }
constexpr int64_t weight_tile_offset(int64_t k, int64_t column) {
    return 128 * (k >> 2) + 4 * column + (k & 3);
}

/// Position of a 4-bit weight in its tile: of the 128 values of four inputs, the first 64 are in the low
/// nibbles of 64 bytes and the rest in the high nibbles, so that a vector unit widens them without
/// permutation.
struct NibblePlace {
    int64_t byte;
    bool high;
};
constexpr NibblePlace nibble_place(int64_t k, int64_t column) {
    const int64_t at = weight_tile_offset(k, column);
    return {64 * (at >> 7) + (at & 63), (at & 64) != 0};
}

/// Bytes of the multipliers of 32 outputs by k_tiles input tiles, one per `block` inputs.
constexpr int64_t n_mult_bytes(int64_t k_tiles, int64_t block) {
    return tiles(k_tiles * kTileChannels, block) * kTileChannels;
}

/// Layout of activations [rows, channels] in DDR: [row tile, plane (high bytes first), channel tile, row].
/// The last row tile holds only the remaining rows; channels are padded with zeros.
struct ActLayout {
    int64_t rows = 0, channels = 0;
    int planes = 2;

    int64_t row_tiles() const { return tiles(rows, kTileRows); }
    int64_t channel_tiles() const { return tiles(channels, kTileChannels); }
    int64_t rows_of(int64_t row_tile) const {
        return rows - row_tile * kTileRows < kTileRows ? rows - row_tile * kTileRows : kTileRows;
    }
    int64_t tile_offset(int64_t row_tile, int plane, int64_t channel_tile) const {
        return row_tile * planes * channel_tiles() * kActTileBytes +
               (plane * channel_tiles() + channel_tile) * rows_of(row_tile) * kTileChannels;
    }
    int64_t bytes() const { return rows * channel_tiles() * kTileChannels * planes; }
};

/// Converts x [rows, channels], values below 2^(8 planes), to and from the layout. `bytes` holds
/// layout.bytes() bytes.
void pack_activations(const ActLayout& layout, const uint16_t* x, std::span<std::byte> bytes);
void unpack_activations(const ActLayout& layout, std::span<const std::byte> bytes, uint16_t* x);
/// The same for one row.
void pack_row(const ActLayout& layout, int64_t row, const uint16_t* x, std::span<std::byte> bytes);
void unpack_row(const ActLayout& layout, int64_t row, std::span<const std::byte> bytes, uint16_t* x);

}  // namespace tessera::npu
