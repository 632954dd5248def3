#pragma once
// What panels of halfwords take beyond int_verbs.h.
#include "quants/arch/avx2/int_verbs.h"

namespace tessera::kernels {
namespace {

/// The bytes 0 and 1 (plane 0) or 2 and 3 (plane 1) of every row as halfwords' high bytes.
TSR_INLINE Int high_bytes(Int bytes, int plane) {
    const Int place = _mm256_setr_epi8(-1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13,  //
                                       -1, 0, -1, 1, -1, 4, -1, 5, -1, 8, -1, 9, -1, 12, -1, 13);
    const Int moved = plane == 0 ? bytes : _mm256_srli_epi32(bytes, 16);
    return _mm256_shuffle_epi8(moved, place);
}
/// Those bytes, which are signed, as halfwords; and times each row's factor.
TSR_INLINE Int widened(Int bytes, int plane) { return _mm256_srai_epi16(high_bytes(bytes, plane), 8); }
TSR_INLINE Int widened(Int bytes, int plane, Int factor) {
    return _mm256_mulhi_epi16(high_bytes(bytes, plane), factor);
}
/// 8 signed bytes at p as rows' factors: halfwords' high bytes, as the bytes that they multiply, so that the
/// high half of a product is that of the bytes.
TSR_INLINE Int load_i8_factors(const void* p) { return left16(load_i8_twice(p), 8); }

}  // namespace
}  // namespace tessera::kernels
