// Maps an instruction set to its tile kernels (src/npu/arch). Assumes that quants/dispatch has chosen the
// instruction set, so that it is usable. Every AArch64 processor has NEON.
#include "src/npu/tile_kernels.h"

#include <string_view>

namespace tessera::npu {

const TileKernels& tile_kernels(const char* isa_name) {
#if defined(TSR_HAVE_AVX2)
    for (const TileKernels* table : {&kTilesAvx512, &kTilesAvxVnni, &kTilesAvx2})
        if (std::string_view(isa_name) == table->name) return *table;
#endif
#if defined(TSR_HAVE_NEON)
    if (std::string_view(isa_name) != "scalar") return kTilesNeon;
#endif
    (void)isa_name;
    return kTilesScalar;
}

}  // namespace tessera::npu
