// The types whose weights fill a byte on AVX2: two operand planes of 4 bits.
#include "quants/arch/avx2/p8_unit.h"

TSR_P8_MATMUL(Q8_0, q8_0)
TSR_P8_MATMUL(IQ4_NL, iq4_nl)
TSR_P8_MATMUL(IQ4_XS, iq4_xs)
