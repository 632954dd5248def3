#pragma once
// The instructions of a Linear, by its plan.
#include "src/npu/instruction.h"
#include "src/npu/tile_plan.h"

namespace tessera::npu {

/// Where in DDR the operands are.
struct LinearPlaces {
    uint64_t weights = 0, input = 0, output = 0;  ///< offsets in their regions
    int64_t mult_offset = 0, record_offset = 0;   ///< of the WeightBlob, from `weights`
    int32_t zero_out = 0;
};

/// Stages of one piece of weights each: its transfer is under way while the piece before it is multiplied.
/// Every wait that is needed, and no other (StreamBuilder).
Stream linear_stream(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places);

}  // namespace tessera::npu
