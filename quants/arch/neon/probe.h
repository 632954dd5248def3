#pragma once
// What the probes of the instruction sets beyond NEON share with it.
#include "quants/kernels/probe.h"

namespace tessera::kernels::neon {

void read(const void* p, size_t n_bytes);

constexpr int64_t kFmaMacsPerRound = 16 * 4;
void fma_chain(int64_t n_rounds);

}  // namespace tessera::kernels::neon
