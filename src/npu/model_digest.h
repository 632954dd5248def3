#pragma once
// A digest that identifies the model a file was made for.
#include <cstdint>

#include "ggml-like/gguf/file.h"

namespace tessera::npu {

/// Digest of the architecture's hyperparameters and of all tensors: names, types, shapes and a sample of the
/// data, with the file's overrides applied. The time does not depend on the size of matrices;
/// gguf::add_identity() documents which changes it detects.
uint64_t model_digest(const gguf::File& file);

}  // namespace tessera::npu
