#pragma once
// Damage that no header shows: weights that are not numbers.

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"

namespace tessera {

/// Decodes every weight of the file, of whatever architecture. The error names the first tensor, in the
/// file's order, with an infinite value or a NaN, and where in it; it also tells of packed tensors that the
/// instruction set cannot read. `progress` gets the bytes done and in all, and may be empty.
Result<void> check_weights(const gguf::File& file, ThreadPool& pool, const kernels::KernelTable& kernels,
                           const ByteProgress& progress);

}  // namespace tessera
