#pragma once
// What the NPU would do when, as a Chrome trace.
#include <string>

#include "src/npu/context_file.h"

namespace tessera {

/// JSON for chrome://tracing and Perfetto: the segments of a pass of `rows` rows that ends before position
/// n_ctx, one after the other, each unit a thread; what the processor does between them takes no time. Times
/// are the model's.
std::string npu_trace(const npu::ContextFile& file, int64_t rows, int64_t n_ctx);

}  // namespace tessera
