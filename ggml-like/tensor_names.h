#pragma once
// Names for views of parameters, which know the address of their data only.
#include <cstdint>
#include <string>
#include <unordered_map>

namespace tessera {

/// The tensor of the file that a parameter is, or some rows of it.
struct TensorRows {
    std::string name;
    int64_t row0 = 0;    // of a fused tensor, where the part begins (in each matrix of a stack)
    int32_t layer = -1;  // -1: of the whole model
};

/// By the address of the parameter's data, Weight::data or Vector::data.
using TensorNames = std::unordered_map<const void*, TensorRows>;

}  // namespace tessera
