#pragma once
// The packed products of the emulated instruction sets.
#define TSR_P8_ISA emulated_avxvnni
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
#define TSR_P8_ISA emulated_avx512
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
