// Products with AVX-512 VNNI for the types whose units have 32 weights.
#include "quants/arch/avx512/packed_unit.h"

TSR_P8_MATMUL(Q4_0, q4_0)
TSR_P8_MATMUL(Q4_1, q4_1)
TSR_P8_MATMUL(Q5_0, q5_0)
TSR_P8_MATMUL(Q5_1, q5_1)
TSR_P8_MATMUL(Q8_0, q8_0)
TSR_P8_MATMUL(IQ4_NL, iq4_nl)
TSR_P8_MATMUL(MXFP4, mxfp4)
