#pragma once
// What each packed_*.cpp of this folder includes: the verbs, the templates over them, and the definitions of
// one type's functions. The types are spread over units only to compile side by side.
#include "quants/arch/avx2/dot.h"
#include "quants/arch/avx2/packed.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_matmul.inl"

namespace tessera::kernels {
namespace {

// As kernels_bench has it. Panels' tiles of three tokens gain least on streams where a block takes most steps
// besides its products.
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
// What a weight and its sign take is little beside the products.
template <class F>
requires(Unpack<F>::kBySigns) constexpr StreamPlan kStreamPlan<F> = {.tokens = 8};

}  // namespace
}  // namespace tessera::kernels

#define TSR_P8_MATMUL(Name, name) \
    void tessera::kernels::avx2::matmul_##name(const PackedMatmulArgs& a) { packed_matmul<Name>(a); }
