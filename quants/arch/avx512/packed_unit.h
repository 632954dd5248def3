#pragma once
// What each packed_*.cpp of this folder includes: the verbs, the templates over them, and the definitions of
// one type's functions. The types are spread over units only to compile side by side.
#include "quants/arch/avx512/packed.h"
#include "quants/arch/avx512/wide.h"
#include "quants/pack/formats.h"
//
#include "quants/kernels/packed_unpack.inl"
//
#include "quants/kernels/packed_matmul.inl"

namespace tessera::kernels {
namespace {

/// So few instructions that a Zen 4 reads further ahead by itself, with long rows too.
template <>
constexpr StreamPlan kStreamPlan<Q8_0> = {.tokens = kStreamTokens, .one = Fetch::Nothing, .wide_ahead = 1344};
template <>
constexpr StreamPlan kStreamPlan<Q4_K> = {.tokens = kStreamTokensOf<Q4_K>, .wide_ahead = 1920};
template <>
constexpr StreamPlan kStreamPlan<Q5_K> = {.tokens = kStreamTokensOf<Q5_K>, .wide_ahead = 1920};

}  // namespace
}  // namespace tessera::kernels

#define TSR_P8_MATMUL(Name, name)                                             \
    void tessera::kernels::avx512::matmul_##name(const PackedMatmulArgs& a) { \
        packed_matmul<Name, WideVec>(a);                                      \
    }
