#pragma once
// What the probes of i8mm do not share with those of NEON.
#include <stdint.h>

namespace tessera::kernels::i8mm {

constexpr int64_t kInt8MacsPerRound = 16 * 32;
void int8_chain(int64_t n_rounds);

}  // namespace tessera::kernels::i8mm
