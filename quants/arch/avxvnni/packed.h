#pragma once
// The packed products with AVX-VNNI.
#define TSR_P8_ISA avxvnni
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
