#pragma once
// The packed products with the dot product instructions.
#define TSR_P8_ISA dotprod
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
