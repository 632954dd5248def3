// Products with the dot product instructions for the types whose units have 256 weights.
#include "quants/arch/dotprod/packed_unit.h"

TSR_P8_MATMUL(Q2_K, q2_k)
TSR_P8_MATMUL(Q3_K, q3_k)
TSR_P8_MATMUL(Q4_K, q4_k)
TSR_P8_MATMUL(Q5_K, q5_k)
TSR_P8_MATMUL(Q6_K, q6_k)
TSR_P8_MATMUL(IQ4_XS, iq4_xs)
TSR_P8_MATMUL(TQ2_0, tq2_0)
TSR_P8_MATMUL(TQ1_0, tq1_0)
