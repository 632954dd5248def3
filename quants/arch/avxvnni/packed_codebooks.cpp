// Products with AVX-VNNI for the codebook types.
#include "quants/arch/avxvnni/packed_unit.h"

TSR_P8_MATMUL(IQ2_XXS, iq2_xxs)
TSR_P8_MATMUL(IQ2_XS, iq2_xs)
TSR_P8_MATMUL(IQ2_S, iq2_s)
TSR_P8_MATMUL(IQ3_XXS, iq3_xxs)
TSR_P8_MATMUL(IQ3_S, iq3_s)
TSR_P8_MATMUL(IQ1_S, iq1_s)
TSR_P8_MATMUL(IQ1_M, iq1_m)
