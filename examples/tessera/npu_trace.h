#pragma once
// The predicted timeline of the NPU, as a Chrome trace.
#include <string>

#include "src/npu/context_file.h"

namespace tessera {

/// JSON for chrome://tracing and Perfetto: the segments of a pass of `rows` rows that ends before position
/// n_ctx, in sequence, with a thread for each unit; the CPU's work between them counts as instant. Times are
/// predictions.
std::string npu_trace(const npu::ContextFile& file, int64_t rows, int64_t n_ctx);

}  // namespace tessera
