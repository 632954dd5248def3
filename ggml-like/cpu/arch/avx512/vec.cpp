// The vector functions on AVX-512. Compiled for that instruction set: no std headers, nothing but the table
// outside anonymous namespaces. The functions: ggml-like/cpu/arch/vec.inl.
#include "quants/arch/avx512/isa.h"

#include "ggml-like/cpu/arch/vec.inl"

namespace tessera::cpu {

constinit const VecTable kVecAvx512Vnni = Vec<kernels::Avx512Isa>::table("avx512vnni");

}  // namespace tessera::cpu
