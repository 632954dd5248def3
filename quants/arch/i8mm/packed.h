#pragma once
// The packed products with the 8-bit matrix instructions.
#define TSR_P8_ISA i8mm
#include "quants/kernels/packed_products.inl"
#undef TSR_P8_ISA
