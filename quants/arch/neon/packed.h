#pragma once
// The packed path on NEON.
#define TSR_P8_ISA neon
#include "quants/kernels/packed_functions.inl"
#undef TSR_P8_ISA
