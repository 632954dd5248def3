// The tile loops for VNNI with a product emulated on AVX2 by exact widening, so that any machine with AVX2
// tests them.
#include "tests/npu/emulated/tile.h"

#include <immintrin.h>

#include "quants/kernels/inline.h"

namespace tessera::npu {

namespace {

/// sum + unsigned bytes of x times signed bytes of w: even and odd bytes separately, as 16-bit words.
TSR_INLINE __m256i dot8(__m256i sum, __m256i x, __m256i w) {
    const __m256i even = _mm256_madd_epi16(_mm256_and_si256(x, _mm256_set1_epi16(255)),
                                           _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
    const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(w, 8));
    return _mm256_add_epi32(sum, _mm256_add_epi32(even, odd));
}

}  // namespace

}  // namespace tessera::npu

#include "src/npu/arch/vnni/pair.h"
//
#include "src/npu/arch/vnni/tile.inl"

namespace tessera::npu {

constinit const TileKernels kTilesEmulatedVnni = {"emulated", multiply, expand, interleave, multiply_packed};

}  // namespace tessera::npu
