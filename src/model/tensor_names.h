#pragma once
// Which tensor of its file each bound parameter of a model is.
#include "ggml-like/tensor_names.h"
#include "src/model/model.h"

namespace tessera {

/// Of all matrices and vectors of a model that is bound or loaded; loading gives packed ones other addresses.
TensorNames tensor_names(const Model& model);

}  // namespace tessera
