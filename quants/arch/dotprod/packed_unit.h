#pragma once
// What each packed_*.cpp of this folder includes: the verbs, the templates over them, and the definitions of
// one type's functions. The types are spread over units only to compile side by side.
#include "quants/arch/dotprod/dot.h"
#include "quants/arch/dotprod/packed.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_matmul.inl"

#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::dotprod::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
