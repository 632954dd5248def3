#pragma once
// What the probes of dotprod do not share with those of NEON.
#include <stdint.h>

namespace tessera::kernels::dotprod {

constexpr int64_t kInt8MacsPerRound = 16 * 16;
void int8_chain(int64_t n_rounds);

}  // namespace tessera::kernels::dotprod
