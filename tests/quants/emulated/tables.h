#pragma once
// Kernel tables that run wherever AVX2 does, with the tiles of the instruction sets that a machine may lack.
#include "quants/kernels/table.h"

namespace tessera::kernels {

extern const KernelTable kEmulatedAvxVnniTable;
extern const KernelTable kEmulatedAvx512VnniTable;

}  // namespace tessera::kernels
