#pragma once
// A table that no processor is chosen for.
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

extern const TileKernels kTilesEmulatedVnni;

}  // namespace tessera::npu
