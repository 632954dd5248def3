// The tiles of AVX-512 VNNI over emulated operations (products_avxvnni.cpp says why the two are separate).
#include "quants/pack/formats.h"
#include "tests/quants/emulated/dot.h"
#include "tests/quants/emulated/products.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_gemm.inl"

namespace tessera::kernels {

#define TSR_P8(Name, name) \
    void emulated_avx512::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name, WideVec>(a); }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels
