#pragma once
// Maps bound parameters of a model to tensors of its file.
#include "ggml-like/tensor_names.h"
#include "src/model/model.h"

namespace tessera {

/// Names of all matrices and vectors of a bound or loaded model. Packing changes the addresses of matrices.
TensorNames tensor_names(const Model& model);

}  // namespace tessera
