#pragma once
// Tiling of a Linear: pieces whose operands fit into VTCM.
#include <cstdint>

#include "src/npu/device.h"
#include "src/npu/weight_blob.h"

namespace tessera::npu {

struct LinearShape {
    int64_t rows = 0, n_in = 0, n_out = 0;
    int64_t block = 0;  ///< block of 4-bit weights; 0: 8-bit weights
    int planes_in = 2, planes_out = 2;
    /// The weights are cached bytes with zero 128, converted to tiles in VTCM.
    bool is_cached = false;
    int64_t k_first = 0;  ///< if cached: inputs before the first one in the first activation tile

    int64_t row_tiles() const;
    int64_t n_tiles() const;
    int64_t k_tiles() const;
};

/// Sizes of the pieces in tiles; the last piece of each dimension may be smaller. If the inputs are split as
/// well, partial sums stay in VTCM between pieces.
struct TileSizes {
    int64_t row_tiles = 0, n_tiles = 0, k_tiles = 0;
};

/// Sizes and VTCM offsets. Pairs of buffers are used alternately (double buffering).
struct TilePlan {
    TileSizes size;
    int act_buffers = 1;         ///< 2 if activations change from stage to stage
    int64_t packet_k_tiles = 1;  ///< chosen so that no packet of the matrix unit crosses the device's span
    uint32_t act[2], packed[2], mult[2], weights[2], records[2], out[2], sums;
    int64_t vtcm_bytes = 0;     ///< end of the last buffer
    double estimated_us = 0;    ///< the criterion of plan_linear()
    int64_t n_descriptors = 0;  ///< of all transfers
};

/// Tiles per packet of the matrix unit if the k_tiles input tiles are split into pieces of `piece` tiles: the
/// largest power of two, up to the device's limit, that divides the tiles of every piece. If operands are
/// aligned to a packet, no packet crosses a larger power of two.
int64_t packet_tiles(int64_t k_tiles, int64_t piece, const HtpDevice& device);

/// VTCM offsets for given sizes; OutOfMemory names the buffer that does not fit.
Result<TilePlan> place_tiles(const LinearShape& shape, const TileSizes& size, const HtpDevice& device);

/// The plan with the least predicted time, then the fewest DMA descriptors, among those that take all inputs
/// at once; inputs are split only if there is no such plan. OutOfMemory if not even single tiles fit.
Result<TilePlan> plan_linear(const LinearShape& shape, const HtpDevice& device);

}  // namespace tessera::npu
