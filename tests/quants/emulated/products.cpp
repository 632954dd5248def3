// The tiles of AVX-VNNI and AVX-512 VNNI over emulated verbs.
#include "tests/quants/emulated/products.h"
#include "quants/pack/formats.h"
#include "tests/quants/emulated/dot.h"
//
#include "quants/kernels/p8_unpack.inl"
//
#include "quants/kernels/p8_tile.inl"

namespace tessera::kernels {

#define TSR_P8(Name, name)                                                                      \
    void emulated_avxvnni::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); } \
    void emulated_avx512::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name, WideVectors>(a); }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels
