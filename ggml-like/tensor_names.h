#pragma once
// Tensor names of weight and vector views, which hold only the address of their data.
#include <cstdint>
#include <string>
#include <unordered_map>

namespace tessera {

/// The tensor in the file that a parameter views, as a whole or a range of its rows.
struct TensorRows {
    std::string name;
    int64_t row0 = 0;    // first row of the part, if the tensor is fused (in each matrix of a stack)
    int32_t layer = -1;  // -1: a tensor of the whole model
};

/// Key: Weight::data or Vector::data.
using TensorNames = std::unordered_map<const void*, TensorRows>;

}  // namespace tessera
