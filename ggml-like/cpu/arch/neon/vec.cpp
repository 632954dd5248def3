// The vector functions on NEON: no std headers, nothing but the tables outside anonymous namespaces. The
// functions: ggml-like/cpu/arch/vec.inl.
#include "quants/arch/neon/isa.h"

#include "ggml-like/cpu/arch/vec.inl"

namespace tessera::cpu {

constinit const VecTable kVecNeon = Vec<kernels::NeonIsa>::table("neon");
constinit const VecTable kVecDotprod = Vec<kernels::NeonIsa>::table("dotprod");
constinit const VecTable kVecI8mm = Vec<kernels::NeonIsa>::table("i8mm");

}  // namespace tessera::cpu
