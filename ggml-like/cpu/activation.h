#pragma once
// The activation functions of products, by the vector functions of an instruction set.
#include "ggml-like/cpu/vec.h"
#include "ggml-like/op_types.h"

namespace tessera::cpu {

/// x[i] = activation(x[i]); not for ClampedSilu, which is a function of two values.
void activate(const VecTable& vec, Activation activation, float* x, int64_t n);

/// out[i] = activation(gate[i]) * up[i]. out may be gate or up.
void activate_mul(const VecTable& vec, Activation activation, const float* gate, const float* up, float* out,
                  int64_t n);

}  // namespace tessera::cpu
