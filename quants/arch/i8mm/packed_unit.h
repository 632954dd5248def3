#pragma once
// What each packed_*.cpp of this folder includes: the verbs, the templates over them, and the definitions of
// one type's functions. The types are spread over units only to compile side by side.
#include "quants/arch/i8mm/packed.h"
#include "quants/arch/i8mm/pairs.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_matmul.inl"

#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::i8mm::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name, PairVec>(a); }
