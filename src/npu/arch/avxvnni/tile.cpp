// The tile loops with AVX-VNNI. Compiled for that instruction set: no std headers, nothing but the table
// outside anonymous namespaces.
#include <immintrin.h>

#include "quants/kernels/inline.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

namespace {

/// sum + unsigned bytes of x times signed bytes of w, a word each.
TSR_INLINE __m256i dot8(__m256i sum, __m256i x, __m256i w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }

}  // namespace

}  // namespace tessera::npu

#include "src/npu/arch/vnni/pair.h"
//
#include "src/npu/arch/vnni/tile.inl"

namespace tessera::npu {

constinit const TileKernels kTilesAvxVnni = {"avxvnni", multiply, expand, interleave, multiply_packed};

}  // namespace tessera::npu
