#pragma once
// The share of a model's work that its segments do.
#include "src/npu/partition.h"

namespace tessera::npu {

/// Work of a set of operations, for one row of a pass.
struct Work {
    int64_t n_ops = 0;
    int64_t products = 0;      ///< multiplications: weights, and attention over all positions
    int64_t weight_bytes = 0;  ///< weight bytes read, in the model file's types

    Work& operator+=(const Work& other);
};

struct OffloadShare {
    Work device, processor;
};

/// Work of one operation in a full context of n_ctx positions. Only the experts that a token uses are
/// counted; table lookups have no products.
Work work_of(const record::Program& program, const record::Op& op, int64_t n_ctx);

/// The same for all operations, separated by where they run.
OffloadShare offload_share(const record::Program& program, const Partition& partition, int64_t n_ctx);

}  // namespace tessera::npu
