#pragma once
// The weights of a Linear as they lie in DDR: whole tiles in the order in which they are multiplied.
#include <cstddef>
#include <vector>

#include "src/npu/linear.h"

namespace tessera::npu {

/// Tiles [n_tiles, k_tiles] of 4 or 8 bits; multipliers [n_tiles, blocks, 32] behind them, if there are
/// blocks; records [n_tiles, 32]. Each part starts at a multiple of 128. Inputs and outputs beyond the matrix
/// are 0.
struct WeightBlob {
    int64_t n_tiles = 0, k_tiles = 0;
    int64_t tile_bytes = 0;  ///< of one tile: kNibbleTileBytes or kWeightTileBytes
    int64_t block = 0;       ///< 0: tiles of 8 bits
    int64_t mult_offset = 0, record_offset = 0;
    std::vector<std::byte> bytes;
};

/// The pool's threads, if there is one, share the tiles. Cancelled where its abort flag was seen.
Result<WeightBlob> make_weight_blob(const Linear& op, ThreadPool* pool = nullptr);

/// The size of its bytes.
int64_t weight_blob_bytes(const WeightRecipe& recipe, int64_t n_out, int64_t n_in);

}  // namespace tessera::npu
