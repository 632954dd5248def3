// The tiles of AVX-VNNI over emulated verbs; those of AVX-512 are a unit of their own, since either takes a
// compiler long.
#include "quants/pack/formats.h"
#include "tests/quants/emulated/dot.h"
#include "tests/quants/emulated/products.h"
//
#include "quants/kernels/p8_unpack.inl"
//
#include "quants/kernels/p8_matmul.inl"

namespace tessera::kernels {

#define TSR_P8(Name, name) \
    void emulated_avxvnni::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels
