#pragma once
// The DDR layout of a Linear's weights: whole tiles in the order in which they are multiplied.
#include <cstddef>
#include <vector>

#include "src/npu/linear.h"

namespace tessera::npu {

/// Tiles [n_tiles, k_tiles] of 4 or 8 bits, then multipliers [n_tiles, blocks, 32] if there are blocks, then
/// records [n_tiles, 32]. Each part is aligned to 128 bytes. Padding inputs and outputs are 0.
struct WeightBlob {
    int64_t n_tiles = 0, k_tiles = 0;
    int64_t tile_bytes = 0;  ///< bytes of one tile: kNibbleTileBytes or kWeightTileBytes
    int64_t block = 0;       ///< 0: 8-bit tiles
    int64_t mult_offset = 0, record_offset = 0;
    std::vector<std::byte> bytes;
};

/// The threads of `pool`, if given, share the tiles. Cancelled if its abort flag is set.
Result<WeightBlob> make_weight_blob(const Linear& op, ThreadPool* pool = nullptr);

/// Size of the blob in bytes.
int64_t weight_blob_bytes(const WeightRecipe& recipe, int64_t n_out, int64_t n_in);

}  // namespace tessera::npu
