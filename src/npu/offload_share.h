#pragma once
// How much of a model's work its segments are.
#include "src/npu/partition.h"

namespace tessera::npu {

/// Of some operations, for one row of a pass.
struct Work {
    int64_t n_ops = 0;
    int64_t products = 0;      ///< of numbers: weights, and queries and probabilities with all positions
    int64_t weight_bytes = 0;  ///< that are read for them, as they lie in the model's file

    Work& operator+=(const Work& other);
};

struct OffloadShare {
    Work device, processor;
};

/// What one operation does in a context of n_ctx positions, all of which are attended to. Of experts as many
/// count as a token takes; rows that are looked up are no products.
Work work_of(const record::Program& program, const record::Op& op, int64_t n_ctx);

/// The same of all operations, by where they run.
OffloadShare offload_share(const record::Program& program, const Partition& partition, int64_t n_ctx);

}  // namespace tessera::npu
