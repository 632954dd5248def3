// Products on AVX2 for Q4_K and Q5_K.
#include "quants/arch/avx2/packed_unit.h"

TSR_P8_MATMUL(Q4_K, q4_k)
TSR_P8_MATMUL(Q5_K, q5_k)
