#pragma once
// Shared by the probes of AVX2 and of the instruction sets beyond it.
#include "quants/kernels/probe.h"

namespace tessera::kernels::avx2 {

void read_side_by_side(const void* p, size_t n_bytes);
void read_in_order(const void* p, size_t n_bytes);
constexpr ReadProbes kReads = {read_side_by_side, read_in_order};

constexpr int64_t kFmaMacsPerRound = 12 * 8;
void fma_chain(int64_t n_rounds);

}  // namespace tessera::kernels::avx2
