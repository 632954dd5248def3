// Packing, unpacking and the quantization of activations on AVX2.
#include "quants/arch/avx2/packed_unit.h"
//
#include "quants/kernels/packed_pack.inl"

namespace tessera::kernels::avx2 {
namespace {

/// 8 floats at p: NaN as 0, infinities as the largest finite float.
TSR_INLINE Flt load_finite(const float* p) {
    const Flt x = _mm256_loadu_ps(p), largest = _mm256_set1_ps(0x1.fffffep127f);
    const Flt number = _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q));
    return _mm256_max_ps(_mm256_min_ps(number, largest), _mm256_set1_ps(-0x1.fffffep127f));
}

TSR_INLINE float largest_lane(Flt v) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

}  // namespace

void quantize_act(const float* x, int64_t n_k, const ActRow& out) {
    const Flt sign = _mm256_set1_ps(-0.0f);
    for (int64_t b = 0; b < n_k / kActBlock; b++, x += kActBlock) {
        Flt v[4];
        TSR_UNROLL
        for (int i = 0; i < 4; i++) v[i] = load_finite(x + 8 * i);
        Flt sizes[4];
        TSR_UNROLL
        for (int i = 0; i < 4; i++) sizes[i] = _mm256_andnot_ps(sign, v[i]);
        const Flt lanes = _mm256_max_ps(_mm256_max_ps(sizes[0], sizes[1]), _mm256_max_ps(sizes[2], sizes[3]));
        float largest = largest_lane(lanes);
        if (largest < kActSmallest) largest = 0.0f;
        const Flt scale = _mm256_set1_ps(largest > 0.0f ? 127.0f / largest : 0.0f);
        Int q[4];
        TSR_UNROLL
        for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(mul(v[i], scale));
        const Int bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        const int64_t at = b * out.step;
        store(out.q + kActBlock * at,
              _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
        out.d[at] = largest / 127.0f;
        // Of each half the words 0 and 1 of 4, and the words 2 and 3.
        const Int pairs_of_halves = _mm256_hadd_epi32(add32(q[0], q[1]), add32(q[2], q[3]));
        const __m128i sum8 = _mm_add_epi32(_mm256_castsi256_si128(pairs_of_halves),
                                           _mm256_extracti128_si256(pairs_of_halves, 1));
        const __m128i sum16 = _mm_hadd_epi32(sum8, sum8);
        out.s[at] = out.d[at] * static_cast<float>(_mm_cvtsi128_si32(sum16) + _mm_extract_epi32(sum16, 1));
        _mm_storeu_si32(out.sum16 + 2 * at, _mm_packs_epi32(sum16, sum16));
        _mm_storel_epi64(reinterpret_cast<__m128i*>(out.sum8 + 4 * at), _mm_packs_epi32(sum8, sum8));
    }
}

#define TSR_P8(Name, name)                                                                     \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {   \
        pack<Name>(w, w_stride, n_rows, n_k, group);                                           \
    }                                                                                          \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) { \
        unpack<Name>(group, n_rows, n_k, w, w_stride);                                         \
    }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels::avx2
