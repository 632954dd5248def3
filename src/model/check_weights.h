#pragma once
// Finds corruption that headers do not show: weights that are not finite.

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "quants/kernels/table.h"

namespace tessera {

/// Decodes every weight of a file of any architecture. Errors: the first tensor in file order with an
/// infinite value or a NaN, with its index; a packed tensor that the instruction set has no kernels for.
/// `progress` gets the bytes done and the total, and may be empty.
Result<void> check_weights(const gguf::File& file, ThreadPool& pool, const kernels::KernelTable& kernels,
                           const ByteProgress& progress);

}  // namespace tessera
