#pragma once
// The packed path in portable C.
#define TSR_P8_ISA scalar
#include "quants/kernels/packed_functions.inl"
#undef TSR_P8_ISA
