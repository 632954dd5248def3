#pragma once
// What the probes of avx512vnni do not share with those of AVX2.
#include <stdint.h>

namespace tessera::kernels::avx512 {

constexpr int64_t kInt8MacsPerRound = 12 * 64;
void int8_chain(int64_t n_rounds);

constexpr int64_t kFmaMacsPerRound = 12 * 16;
void fma_chain(int64_t n_rounds);

}  // namespace tessera::kernels::avx512
