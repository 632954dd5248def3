#pragma once
// The packed products with AVX-512 VNNI.
#define TSR_P8_ISA avx512
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
