// Products on AVX2 for the types whose weights fill a byte.
#include "quants/arch/avx2/packed_unit.h"
//
#include "quants/kernels/packed_signed_bytes.inl"

TSR_P8_MATMUL(Q8_0, q8_0)
TSR_P8_MATMUL(IQ4_NL, iq4_nl)
TSR_P8_MATMUL(IQ4_XS, iq4_xs)
