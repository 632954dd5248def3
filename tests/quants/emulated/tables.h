#pragma once
// Kernel tables that run on any machine with AVX2 and have the tiles of instruction sets that it may lack.
#include "quants/kernels/table.h"

namespace tessera::kernels {

extern const KernelTable kEmulatedAvxVnniTable;
extern const KernelTable kEmulatedAvx512VnniTable;

}  // namespace tessera::kernels
