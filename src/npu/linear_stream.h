#pragma once
// Generates the instructions of a Linear from its tile plan.
#include "src/npu/instruction.h"
#include "src/npu/tile_plan.h"

namespace tessera::npu {

/// A part of a tensor [rows, channels] in DDR: channel tiles from `first_tile` on.
struct ActPlace {
    uint64_t at = 0;       ///< offset of the tensor in the arena
    int64_t channels = 0;  ///< channels of the whole tensor; 0: the part is all of it
    int64_t first_tile = 0;
};

/// DDR offsets of the operands.
struct LinearPlaces {
    uint64_t weights = 0;  ///< offset in the constants, or of the first byte in the cache
    ActPlace input, output;
    int64_t mult_offset = 0, record_offset = 0;  ///< WeightBlob offsets relative to `weights`
    int32_t zero_out = 0;
    // For cached weights: bytes from one input to the next, and the parameters of their records.
    uint64_t input_stride = 0;
    int32_t centre = 0;
    Multiplier factor;
    OutputMode mode = OutputMode::Exact;
};

/// One stage per piece of weights, whose transfer overlaps the multiplication of the previous piece.
/// StreamBuilder adds exactly the necessary waits.
Stream linear_stream(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places);

}  // namespace tessera::npu
