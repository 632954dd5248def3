// The tile loops with AVX-512 VNNI. An ISA unit: no std headers, and only the table is outside anonymous
// namespaces.
#include <immintrin.h>

#include "quants/kernels/inline.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

namespace {

using Wide = __m512i;
constexpr int kRowsAtOnce = 4;

TSR_INLINE Wide splat(int32_t word) { return _mm512_set1_epi32(word); }
TSR_INLINE Wide load(const void* bytes) { return _mm512_loadu_si512(bytes); }
TSR_INLINE void store(int32_t* words, Wide v) { _mm512_storeu_si512(words, v); }
TSR_INLINE Wide widen_bytes(const int8_t* bytes) {
    return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}
/// sum + unsigned bytes of x times signed bytes of w, in 32-bit lanes.
TSR_INLINE Wide dot(Wide sum, Wide x, Wide w) { return _mm512_dpbusd_epi32(sum, x, w); }
TSR_INLINE Wide add(Wide a, Wide b) { return _mm512_add_epi32(a, b); }
TSR_INLINE Wide sub(Wide a, Wide b) { return _mm512_sub_epi32(a, b); }
TSR_INLINE Wide times(Wide a, Wide b) { return _mm512_mullo_epi32(a, b); }
TSR_INLINE Wide sub_bytes(Wide a, Wide b) { return _mm512_sub_epi8(a, b); }
TSR_INLINE Wide bits_differ(Wide a, Wide b) { return _mm512_xor_si512(a, b); }
TSR_INLINE Wide low_nibbles(Wide v) { return _mm512_and_si512(v, splat(0x0f0f0f0f)); }
TSR_INLINE Wide high_nibbles(Wide v) { return low_nibbles(_mm512_srli_epi16(v, 4)); }

}  // namespace

}  // namespace tessera::npu

#include "src/npu/arch/vnni/tile.inl"

namespace tessera::npu {

constinit const TileKernels kTilesAvx512 = {"avx512vnni", multiply, expand, interleave, multiply_packed};

}  // namespace tessera::npu
