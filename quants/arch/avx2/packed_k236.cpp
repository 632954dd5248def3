// Products on AVX2 for Q2_K, Q3_K, Q6_K and the ternary types.
#include "quants/arch/avx2/packed_unit.h"

TSR_P8_MATMUL(Q2_K, q2_k)
TSR_P8_MATMUL(Q3_K, q3_k)
TSR_P8_MATMUL(Q6_K, q6_k)
TSR_P8_MATMUL(TQ2_0, tq2_0)
TSR_P8_MATMUL(TQ1_0, tq1_0)
