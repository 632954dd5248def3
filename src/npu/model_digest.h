#pragma once
// Which model something was made for.
#include <cstdint>

#include "ggml-like/gguf/file.h"

namespace tessera::npu {

/// Of the architecture's hyperparameters and of all tensors: names, types, shapes and a sample of the data,
/// as they are read with the file's overrides. Takes the same time however large the matrices are; see
/// gguf::add_identity() for which changes it notices.
uint64_t model_digest(const gguf::File& file);

}  // namespace tessera::npu
