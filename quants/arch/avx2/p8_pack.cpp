// Packing, unpacking and the quantization of activations on AVX2: the moves of quants/pack/formats.h with the
// codes of 8 rows transposed in registers. The same bytes as the scalar functions, from 5 to 20 times as
// fast.
#include "quants/arch/avx2/p8_unit.h"

namespace tessera::kernels::avx2 {
namespace {

/// v[g] = the codes of group g of 8 rows.
template <int Bits>
void store_codes(const Int (&v)[8], uint8_t* block) {
    if constexpr (Bits == 8) {
        for (int g = 0; g < 8; g++) store(block + 32 * g, v[g]);
        return;
    }
    constexpr int kPairAt = Bits & 4, kBitAt = Bits & 6;
    if constexpr ((Bits & 4) != 0) {
        TSR_UNROLL
        for (int g = 0; g < 8; g += 2) {
            store(block + 16 * g, either(field_at<4>(v[g], 0, 0), field_at<4>(v[g + 1], 0, 4)));
        }
        block += 128;
    }
    if constexpr ((Bits & 2) != 0) {
        TSR_UNROLL
        for (int g = 0; g < 8; g += 4) {
            const Int low = either(field_at<2>(v[g], kPairAt, 0), field_at<2>(v[g + 1], kPairAt, 2));
            const Int high = either(field_at<2>(v[g + 2], kPairAt, 4), field_at<2>(v[g + 3], kPairAt, 6));
            store(block + 8 * g, either(low, high));
        }
        block += 64;
    }
    if constexpr ((Bits & 1) != 0) {
        Int bits = field_at<1>(v[0], kBitAt, bit_of_group(0));
        TSR_UNROLL
        for (int g = 1; g < 8; g++) bits = either(bits, field_at<1>(v[g], kBitAt, bit_of_group(g)));
        store(block, bits);
    }
}

/// Units of 32 weights go eight at a time: the bytes written by one row are then long in the cache when the
/// transposition reads them as vectors.
template <class F>
constexpr int kBatch = 256 / F::kUnitK;

template <class F>
void pack_units(const uint8_t* from, size_t w_stride, int n_rows, int n_units, uint8_t* unit) {
    using Disk = typename F::Disk;
    RowUnit u[kBatch<F>][kGroupRows];
    const Disk zeros = {};
    for (int row = 0; row < kGroupRows; row++) {
        const Disk* blocks = reinterpret_cast<const Disk*>(from + static_cast<size_t>(row) * w_stride);
        for (int i = 0; i < n_units; i++) F::read_disk(row < n_rows ? blocks[i] : zeros, u[i][row]);
    }
    for (int i = 0; i < n_units; i++, unit += F::kUnitBytes) {
        memset(unit, 0, F::kHeadBytes);
        for (int row = 0; row < kGroupRows; row++) F::write_head(u[i][row], unit, row);
        for (int b = 0; b < F::kBlocks; b++) {
            Int v[8];
            TSR_UNROLL
            for (int row = 0; row < kGroupRows; row++) v[row] = load(u[i][row].code + 32 * b);
            transpose_words(v);
            store_codes<F::kBits>(v, unit + codes_at<F>(b));
        }
    }
}

template <class F>
void unpack_units(const uint8_t* unit, int n_rows, int n_units, uint8_t* to, size_t w_stride) {
    using Disk = typename F::Disk;
    RowUnit u[kBatch<F>][kGroupRows];
    for (int i = 0; i < n_units; i++, unit += F::kUnitBytes) {
        for (int b = 0; b < F::kBlocks; b++) {
            Int v[8];
            TSR_UNROLL
            for (int g = 0; g < 8; g++) v[g] = code_vector<F::kBits>(unit + codes_at<F>(b), g);
            transpose_words(v);
            TSR_UNROLL
            for (int row = 0; row < kGroupRows; row++) store(u[i][row].code + 32 * b, v[row]);
        }
        for (int row = 0; row < n_rows; row++) F::read_head(unit, row, u[i][row]);
    }
    for (int row = 0; row < n_rows; row++) {
        Disk* blocks = reinterpret_cast<Disk*>(to + static_cast<size_t>(row) * w_stride);
        for (int i = 0; i < n_units; i++) F::write_disk(u[i][row], blocks[i]);
    }
}

template <class F>
void pack(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {
    const int64_t n_units = n_k / F::kUnitK;
    for (int64_t i = 0; i < n_units; i += kBatch<F>) {
        const int count = static_cast<int>(n_units - i < kBatch<F> ? n_units - i : kBatch<F>);
        pack_units<F>(static_cast<const uint8_t*>(w) + i * static_cast<int64_t>(sizeof(typename F::Disk)),
                      w_stride, n_rows, count, static_cast<uint8_t*>(group) + i * F::kUnitBytes);
    }
}

template <class F>
void unpack(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) {
    const int64_t n_units = n_k / F::kUnitK;
    for (int64_t i = 0; i < n_units; i += kBatch<F>) {
        const int count = static_cast<int>(n_units - i < kBatch<F> ? n_units - i : kBatch<F>);
        unpack_units<F>(static_cast<const uint8_t*>(group) + i * F::kUnitBytes, n_rows, count,
                        static_cast<uint8_t*>(w) + i * static_cast<int64_t>(sizeof(typename F::Disk)),
                        w_stride);
    }
}

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

TSR_INLINE int32_t sum_lanes(Int v) {
    __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1)));
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
        const Flt pairs = _mm256_max_ps(_mm256_max_ps(sizes[0], sizes[1]), _mm256_max_ps(sizes[2], sizes[3]));
        float largest = largest_lane(pairs);
        if (largest < kActSmallest) largest = 0.0f;
        const Flt scale = _mm256_set1_ps(largest > 0.0f ? 127.0f / largest : 0.0f);
        Int q[4];
        TSR_UNROLL
        for (int i = 0; i < 4; i++) q[i] = _mm256_cvtps_epi32(mul(v[i], scale));
        const int32_t sum0 = sum_lanes(add32(q[0], q[1])), sum1 = sum_lanes(add32(q[2], q[3]));
        const Int bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        store(out.q + kActBlock * b,
              _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
        out.d[b] = largest / 127.0f;
        out.s[b] = out.d[b] * static_cast<float>(sum0 + sum1);
        out.sum16[2 * b] = static_cast<int16_t>(sum0);
        out.sum16[2 * b + 1] = static_cast<int16_t>(sum1);
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
