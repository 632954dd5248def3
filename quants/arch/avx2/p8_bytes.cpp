// The types whose weights fill a byte on AVX2.
#include "quants/arch/avx2/p8_unit.h"
//
#include "quants/kernels/p8_signs.inl"

#undef TSR_P8_MATMUL
#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::avx2::matmul_##name(const PackedMatmulArgs& a) { packed_matmul_signs<Name>(a); }

TSR_P8_MATMUL(Q8_0, q8_0)
TSR_P8_MATMUL(IQ4_NL, iq4_nl)
TSR_P8_MATMUL(IQ4_XS, iq4_xs)
