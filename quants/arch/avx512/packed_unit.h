#pragma once
// Included by each packed_*.cpp of this folder: the operations, the templates over them, and the macro that
// defines one type's functions. Types are spread over units only to compile in parallel.
#include "quants/arch/avx512/packed.h"
#include "quants/arch/avx512/wide.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_gemm.inl"

namespace tessera::kernels {
namespace {

/// Zen 4 reads ahead by itself whatever the row length, since a unit takes few instructions. 1344 bytes ahead
/// instead of 1664: +2 % on Zen 5.
template <>
constexpr StreamPlan kStreamPlan<Q8_0> = {
    .tokens = kStreamTokens, .hardware_prefetch = true, .wide_l1 = 1344};

}  // namespace
}  // namespace tessera::kernels

#define TSR_P8_MATMUL(Name, name)                                             \
    void tessera::kernels::avx512::matmul_##name(const PackedMatmulArgs& a) { \
        packed_matmul<Name, WideVec>(a);                                      \
    }
