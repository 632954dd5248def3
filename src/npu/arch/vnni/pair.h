#pragma once
// The Wide vector type as two 256-bit registers, for AVX-VNNI and its emulated tests: the including file
// defines dot8() of one register.

namespace tessera::npu {

namespace {

struct Wide {
    __m256i lo, hi;
};
constexpr int kRowsAtOnce = 1;

TSR_INLINE __m256i load8(const void* bytes) { return _mm256_loadu_si256(static_cast<const __m256i*>(bytes)); }
TSR_INLINE Wide splat(int32_t word) { return {_mm256_set1_epi32(word), _mm256_set1_epi32(word)}; }
TSR_INLINE Wide load(const void* bytes) {
    return {load8(bytes), load8(static_cast<const uint8_t*>(bytes) + 32)};
}
TSR_INLINE void store(int32_t* words, Wide v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), v.lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(words + 8), v.hi);
}
TSR_INLINE Wide widen_bytes(const int8_t* bytes) {
    return {_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes))),
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes + 8)))};
}
TSR_INLINE Wide dot(Wide sum, Wide x, Wide w) { return {dot8(sum.lo, x.lo, w.lo), dot8(sum.hi, x.hi, w.hi)}; }
TSR_INLINE Wide add(Wide a, Wide b) { return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)}; }
TSR_INLINE Wide sub(Wide a, Wide b) { return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)}; }
TSR_INLINE Wide times(Wide a, Wide b) {
    return {_mm256_mullo_epi32(a.lo, b.lo), _mm256_mullo_epi32(a.hi, b.hi)};
}
TSR_INLINE Wide sub_bytes(Wide a, Wide b) {
    return {_mm256_sub_epi8(a.lo, b.lo), _mm256_sub_epi8(a.hi, b.hi)};
}
TSR_INLINE Wide bits_differ(Wide a, Wide b) {
    return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
TSR_INLINE Wide low_nibbles(Wide v) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(v.lo, mask), _mm256_and_si256(v.hi, mask)};
}
TSR_INLINE Wide high_nibbles(Wide v) {
    return low_nibbles({_mm256_srli_epi16(v.lo, 4), _mm256_srli_epi16(v.hi, 4)});
}

}  // namespace

}  // namespace tessera::npu
