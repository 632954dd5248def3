// The vector verbs in plain C: what every other table equals bit for bit. The verbs:
// ggml-like/cpu/arch/vec.inl; the 16 virtual lanes: quants/arch/scalar/isa.h.
#include "quants/arch/scalar/isa.h"

#include "ggml-like/cpu/arch/vec.inl"

namespace tessera::cpu {

constinit const VecTable kVecScalar = Vec<kernels::ScalarIsa>::table("scalar");

}  // namespace tessera::cpu
