#pragma once
// The packed path on AVX2.
#define TSR_P8_ISA avx2
#include "quants/kernels/packed_functions.inl"
#undef TSR_P8_ISA
