#pragma once
// How a Linear is cut so that what is worked on fits into VTCM.
#include <cstdint>

#include "src/npu/device.h"
#include "src/npu/weight_blob.h"

namespace tessera::npu {

struct LinearShape {
    int64_t rows = 0, n_in = 0, n_out = 0;
    int64_t block = 0;  ///< of weights of 4 bits; 0: weights of 8 bits
    int planes_in = 2, planes_out = 2;
    /// Weights are bytes around 128 in the cache, which become tiles in VTCM.
    bool is_cached = false;
    int64_t k_first = 0;  ///< of these: inputs before the first one in the first tile of activations

    int64_t row_tiles() const;
    int64_t n_tiles() const;
    int64_t k_tiles() const;
};

/// Sizes of the pieces in tiles; the last one along each dimension may be smaller. All inputs at once where
/// possible: otherwise sums are kept in VTCM from one piece to the next.
struct TileSizes {
    int64_t row_tiles = 0, n_tiles = 0, k_tiles = 0;
};

/// Sizes and places. Buffers of which there are two are used in turn.
struct TilePlan {
    TileSizes size;
    int act_buffers = 1;         ///< 2 where activations change from stage to stage
    int64_t packet_k_tiles = 1;  ///< of the matrix unit, such that no packet crosses the device's span
    uint32_t act[2], packed[2], mult[2], weights[2], records[2], out[2], sums;
    int64_t vtcm_bytes = 0;     ///< up to the end of the last buffer
    double estimated_us = 0;    ///< by which it was chosen
    int64_t n_descriptors = 0;  ///< of all transfers
};

/// Tiles of a packet of the matrix unit where inputs of k_tiles tiles come in pieces of so many: the largest
/// power of two up to the device's that divides the tiles of every piece. With operands at multiples of a
/// packet, no packet then crosses a power of two that is larger.
int64_t packet_tiles(int64_t k_tiles, int64_t piece, const HtpDevice& device);

/// Places for given sizes; OutOfMemory names the buffer that did not fit.
Result<TilePlan> place_tiles(const LinearShape& shape, const TileSizes& size, const HtpDevice& device);

/// Of the plans that take all inputs at once the one with the least modelled time, among equals the one with
/// the fewest DMA descriptors; inputs are cut only where there is no such plan. OutOfMemory if not even
/// single tiles fit.
Result<TilePlan> plan_linear(const LinearShape& shape, const HtpDevice& device);

}  // namespace tessera::npu
