// The vector functions on AVX2 with FMA and F16C. Compiled for that instruction set: no std headers, nothing
// but the tables outside anonymous namespaces. The functions: ggml-like/cpu/arch/vec.inl.
#include "quants/arch/avx2/isa.h"

#include "ggml-like/cpu/arch/vec.inl"

namespace tessera::cpu {

constinit const VecTable kVecAvx2 = Vec<kernels::Avx2Isa>::table("avx2");
constinit const VecTable kVecAvxVnni = Vec<kernels::Avx2Isa>::table("avxvnni");

}  // namespace tessera::cpu
