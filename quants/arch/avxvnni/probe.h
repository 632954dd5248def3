#pragma once
// What the probes of avxvnni do not share with those of AVX2.
#include <stdint.h>

namespace tessera::kernels::avxvnni {

constexpr int64_t kInt8MacsPerRound = 12 * 32;
void int8_chain(int64_t n_rounds);

}  // namespace tessera::kernels::avxvnni
