// The tiles of AVX-VNNI over emulated operations. Those of AVX-512 are a separate unit because either takes
// long to compile.
#include "quants/pack/formats.h"
#include "tests/quants/emulated/dot.h"
#include "tests/quants/emulated/products.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_gemm.inl"

namespace tessera::kernels {

#define TSR_P8(Name, name) \
    void emulated_avxvnni::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels
