// The types whose weights fill a byte on AVX2: two operand planes of 4 bits for few tokens, halfwords for
// many.
#include "quants/arch/avx2/halves.h"
#include "quants/arch/avx2/p8_unit.h"
//
#include "quants/kernels/p8_halves.inl"

#undef TSR_P8_MATMUL
#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::avx2::matmul_##name(const PackedMatmulArgs& a) { packed_matmul_halves<Name>(a); }

TSR_P8_MATMUL(Q8_0, q8_0)
TSR_P8_MATMUL(IQ4_NL, iq4_nl)
TSR_P8_MATMUL(IQ4_XS, iq4_xs)
