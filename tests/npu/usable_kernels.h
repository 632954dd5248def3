#pragma once
// The tables of tile kernels that this machine can run.
#include <algorithm>
#include <string>
#include <vector>

#include "quants/dispatch.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu::test {

/// The best one first, plain C last.
inline std::vector<const TileKernels*> usable_kernels() {
    std::vector<const TileKernels*> out;
    for (const kernels::IsaInfo& isa : kernels::all_isas()) {
        const TileKernels* table = &tile_kernels(std::string(isa.name).c_str());
        if (isa.usable && std::find(out.begin(), out.end(), table) == out.end()) out.push_back(table);
    }
    return out;
}

}  // namespace tessera::npu::test
