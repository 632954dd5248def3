#pragma once
// Included by each packed_*.cpp of this folder: the operations, the templates over them, and the macro that
// defines one type's functions. Types are spread over units only to compile in parallel.
#include "quants/arch/avx2/dot.h"
#include "quants/arch/avx2/packed.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_gemm.inl"

namespace tessera::kernels {
namespace {

// Measured with kernels_bench. Panel tiles of three tokens gain least on streams for types whose blocks take
// most instructions besides their products.
template <>
constexpr StreamPlan kStreamPlan<Q2_K> = {.tokens = 6};
template <>
constexpr StreamPlan kStreamPlan<Q3_K> = {.tokens = 6};
template <>
constexpr StreamPlan kStreamPlan<Q4_0> = {.tokens = 6};
template <>
constexpr StreamPlan kStreamPlan<Q4_1> = {.tokens = 6};
template <>
constexpr StreamPlan kStreamPlan<Q5_0> = {.tokens = 6};
template <>
constexpr StreamPlan kStreamPlan<Q5_1> = {.tokens = 7};
template <>
constexpr StreamPlan kStreamPlan<Q6_K> = {.tokens = 6};
// Separating a weight's sign costs little beside the products.
template <class F>
requires(Unpack<F>::kBySigns) constexpr StreamPlan kStreamPlan<F> = {.tokens = 8};

}  // namespace
}  // namespace tessera::kernels

#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::avx2::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
