#pragma once
// What panels of halfwords take beyond int_verbs.h.
#include "quants/arch/avx2/int_verbs.h"

namespace tessera::kernels {
namespace {

/// The signed bytes 0 and 1 (plane 0) or 2 and 3 (plane 1) of every row as halfwords.
TSR_INLINE Int widened(Int bytes, int plane) {
    const Int place = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13,  //
                                       -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    const Int moved = plane == 0 ? bytes : _mm256_srli_epi32(bytes, 16);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(moved, place), 8);
}
/// 8 signed bytes at p as floats.
TSR_INLINE Int load_i8_floats(const void* p) {
    const Int words = _mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)));
    return _mm256_castps_si256(to_float(words));
}
TSR_INLINE Flt as_float(Int a) { return _mm256_castsi256_ps(a); }
TSR_INLINE Flt to_float(Flt a) { return a; }

}  // namespace
}  // namespace tessera::kernels
