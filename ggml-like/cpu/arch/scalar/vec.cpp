// The vector functions in plain C, whose bits every other table equals. The functions:
// ggml-like/cpu/arch/vec.inl; the 16 virtual lanes: quants/arch/scalar/isa.h.
#include "quants/arch/scalar/isa.h"

#include "ggml-like/cpu/arch/vec.inl"

namespace tessera::cpu {

constinit const VecTable kVecScalar = Vec<kernels::ScalarIsa>::table("scalar");

}  // namespace tessera::cpu
