#pragma once
// From a recorded program to a graph of what the device can compute.
#include "src/npu/graph.h"
#include "src/npu/partition.h"

namespace tessera::npu {

/// A range of the program's operations, which partition() found to be the device's, for caches of n_ctx >=
/// n_tok positions. Values have the names that they have in the graph of the whole program.
Result<Graph> lower(const record::Program& program, const DeviceRange& range, int64_t n_ctx);

/// The program behind its embeddings. Unsupported names the first operation behind them that would have to
/// stay on the processor, and why.
Result<Graph> lower(const record::Program& program, int64_t n_ctx);

}  // namespace tessera::npu
