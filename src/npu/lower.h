#pragma once
// Lowers a recorded program to a graph of device operations.
#include "src/npu/graph.h"
#include "src/npu/partition.h"

namespace tessera::npu {

/// Lowers a range of operations that partition() assigned to the device, for caches of n_ctx >= n_tok
/// positions. Values have the same names as in the graph of the whole program.
Result<Graph> lower(const record::Program& program, const DeviceRange& range, int64_t n_ctx);

/// Lowers the whole program after its embeddings. Unsupported names the first operation that would stay on
/// the CPU, and why.
Result<Graph> lower(const record::Program& program, int64_t n_ctx);

}  // namespace tessera::npu
