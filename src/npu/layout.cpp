// Converts activations between rows and tiles. weight_blob.cpp does the same for weights.
#include "src/npu/layout.h"

#include <algorithm>

namespace tessera::npu {

namespace {

std::byte byte_of(uint16_t value, int planes, int plane) {
    return static_cast<std::byte>(value >> (8 * (planes - 1 - plane)));
}

}  // namespace

void pack_row(const ActLayout& layout, int64_t row, const uint16_t* x, std::span<std::byte> bytes) {
    for (int plane = 0; plane < layout.planes; ++plane)
        for (int64_t tile = 0; tile < layout.channel_tiles(); ++tile) {
            std::byte* at = &bytes[static_cast<size_t>(layout.tile_offset(row / kTileRows, plane, tile) +
                                                       act_tile_offset(row % kTileRows, 0))];
            const int64_t first = tile * kTileChannels;
            const int64_t n = std::min(kTileChannels, layout.channels - first);
            for (int64_t i = 0; i < n; ++i) at[i] = byte_of(x[first + i], layout.planes, plane);
            std::fill(at + n, at + kTileChannels, std::byte{0});
        }
}

void unpack_row(const ActLayout& layout, int64_t row, std::span<const std::byte> bytes, uint16_t* x) {
    for (int64_t channel = 0; channel < layout.channels; ++channel) {
        unsigned value = 0;
        for (int plane = 0; plane < layout.planes; ++plane) {
            const int64_t at = layout.tile_offset(row / kTileRows, plane, channel / kTileChannels) +
                               act_tile_offset(row % kTileRows, channel % kTileChannels);
            value = value << 8 | std::to_integer<unsigned>(bytes[static_cast<size_t>(at)]);
        }
        x[channel] = static_cast<uint16_t>(value);
    }
}

void pack_activations(const ActLayout& layout, const uint16_t* x, std::span<std::byte> bytes) {
    for (int64_t row = 0; row < layout.rows; ++row) pack_row(layout, row, x + row * layout.channels, bytes);
}

void unpack_activations(const ActLayout& layout, std::span<const std::byte> bytes, uint16_t* x) {
    for (int64_t row = 0; row < layout.rows; ++row) unpack_row(layout, row, bytes, x + row * layout.channels);
}

}  // namespace tessera::npu
