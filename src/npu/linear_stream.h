#pragma once
// The instructions of a Linear, by its plan.
#include "src/npu/instruction.h"
#include "src/npu/tile_plan.h"

namespace tessera::npu {

/// Part of a tensor [rows, channels] in DDR: tiles of channels from `first_tile` on.
struct ActPlace {
    uint64_t at = 0;       ///< of the tensor in the arena
    int64_t channels = 0;  ///< of the tensor; 0: the part is all of it
    int64_t first_tile = 0;
};

/// Where in DDR the operands are.
struct LinearPlaces {
    uint64_t weights = 0;  ///< in the constants, or of the first byte in the cache
    ActPlace input, output;
    int64_t mult_offset = 0, record_offset = 0;  ///< of the WeightBlob, from `weights`
    int32_t zero_out = 0;
    // Of weights in the cache: bytes from one input to the next, and what their records are made of.
    uint64_t input_stride = 0;
    int32_t centre = 0;
    Multiplier factor;
    OutputMode mode = OutputMode::Exact;
};

/// Stages of one piece of weights each: its transfer is under way while the piece before it is multiplied.
/// Every wait that is needed, and no other (StreamBuilder).
Stream linear_stream(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places);

}  // namespace tessera::npu
