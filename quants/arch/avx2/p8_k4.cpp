// Q4_K and Q5_K on AVX2.
#include "quants/arch/avx2/p8_unit.h"

TSR_P8_MATMUL(Q4_K, q4_k)
TSR_P8_MATMUL(Q5_K, q5_k)
