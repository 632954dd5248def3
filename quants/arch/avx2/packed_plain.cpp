// Products on AVX2 for the types of 4 and 5 bits with a float scale per 32 weights.
#include "quants/arch/avx2/packed_unit.h"

TSR_P8_MATMUL(Q4_0, q4_0)
TSR_P8_MATMUL(Q4_1, q4_1)
TSR_P8_MATMUL(Q5_0, q5_0)
TSR_P8_MATMUL(Q5_1, q5_1)
TSR_P8_MATMUL(MXFP4, mxfp4)
