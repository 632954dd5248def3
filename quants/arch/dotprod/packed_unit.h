#pragma once
// Included by each packed_*.cpp of this folder: the operations, the templates over them, and the macro that
// defines one type's functions. Types are spread over units only to compile in parallel.
#include "quants/arch/dotprod/dot.h"
#include "quants/arch/dotprod/packed.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_gemm.inl"

#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::dotprod::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
