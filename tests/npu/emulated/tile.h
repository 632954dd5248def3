#pragma once
// A table that is chosen for no processor.
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

extern const TileKernels kTilesEmulatedVnni;

}  // namespace tessera::npu
