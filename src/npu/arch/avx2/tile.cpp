// The tile loops on AVX2. Bytes are widened to 16 bits for vpmaddwd, because vpmaddubsw saturates and the
// matrix unit does not; 4-bit codes, whose sums fit, use vpmaddubsw. Both planes of activations are combined
// to a 16-bit value minus 32768, which takes one pass instead of two. An ISA unit: no std headers, and only
// the table is outside anonymous namespaces.
#include <immintrin.h>

#include "quants/kernels/inline.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

namespace {

constexpr int64_t kChannels = 32, kTileBytes = kChannels * kChannels;
/// A lane sums half of the 32 inputs of a tile: 8 * 16 * 2^15 * 2^7 = 2^29; two lanes are added before
/// widening.
constexpr int64_t kTilesPerFlush = 8;

/// Rows that share each load of weights, with 4 sums each.
template <int R>
struct Rows {
    alignas(32) int16_t x[R][kChannels];
};

template <int R>
TSR_INLINE void widen(const MultiplyArgs& a, int64_t tile, int64_t row, Rows<R>& rows) {
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        const int64_t at = tile * a.act_stride + (row + r) * kChannels;
        TSR_UNROLL
        for (int half = 0; half < 2; half++) {
            const auto load = [&](const uint8_t* plane) __attribute__((always_inline)) {
                return _mm256_cvtepu8_epi16(
                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(plane + at + 16 * half)));
            };
            __m256i x = load(a.high);
            if (a.low) {
                x = _mm256_or_si256(_mm256_slli_epi16(x, 8), load(a.low));
                x = _mm256_xor_si256(x, _mm256_set1_epi16(static_cast<int16_t>(-32768)));
            }
            _mm256_store_si256(reinterpret_cast<__m256i*>(rows.x[r] + 16 * half), x);
        }
    }
}

/// Widens pair sums to 64 bits: lane pairs of a and b are outputs 0 1 4 5 and 2 3 6 7.
TSR_INLINE void flush(__m256i a, __m256i b, int64_t* sums) {
    const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xd8);
    const __m256i halves[2] = {_mm256_cvtepi32_epi64(_mm256_castsi256_si128(pairs)),
                               _mm256_cvtepi32_epi64(_mm256_extracti128_si256(pairs, 1))};
    TSR_UNROLL
    for (int i = 0; i < 2; i++) {
        auto* at = reinterpret_cast<__m256i*>(sums + 4 * i);
        _mm256_storeu_si256(at, _mm256_add_epi64(_mm256_loadu_si256(at), halves[i]));
    }
}

/// Computes 16 outputs, from `first` on, of R rows.
template <int R>
TSR_INLINE void multiply_half(const MultiplyArgs& a, int64_t row, int first) {
    for (int64_t begin = 0; begin < a.k_tiles; begin += kTilesPerFlush) {
        const int64_t end = begin + kTilesPerFlush < a.k_tiles ? begin + kTilesPerFlush : a.k_tiles;
        __m256i sums[R][4];
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            TSR_UNROLL
            for (int i = 0; i < 4; i++) sums[r][i] = _mm256_setzero_si256();
        }
        for (int64_t tile = begin; tile < end; tile++) {
            Rows<R> rows;
            widen<R>(a, tile, row, rows);
            const int8_t* w = a.w + tile * kTileBytes + 4 * first;
            for (int quad = 0; quad < 8; quad++, w += 128) {
                __m256i x[R];
                TSR_UNROLL
                for (int r = 0; r < R; r++) {
                    int64_t four;
                    __builtin_memcpy(&four, rows.x[r] + 4 * quad, sizeof four);
                    x[r] = _mm256_set1_epi64x(four);
                }
                TSR_UNROLL
                for (int i = 0; i < 4; i++) {
                    const __m256i wide =
                        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(w + 16 * i)));
                    TSR_UNROLL
                    for (int r = 0; r < R; r++)
                        sums[r][i] = _mm256_add_epi32(sums[r][i], _mm256_madd_epi16(wide, x[r]));
                }
            }
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            int64_t* out = a.sums + (row + r) * kChannels + first;
            flush(sums[r][0], sums[r][1], out);
            flush(sums[r][2], sums[r][3], out + 8);
        }
    }
}

void multiply(const MultiplyArgs& a) {
    int64_t row = 0;
    for (; row + 2 <= a.rows; row += 2) {
        multiply_half<2>(a, row, 0);
        multiply_half<2>(a, row, 16);
    }
    if (row < a.rows) {
        multiply_half<1>(a, row, 0);
        multiply_half<1>(a, row, 16);
    }
}

/// Multiplies 32 codes of 8 outputs, in the low bits of each byte, by their multipliers. Only the low byte of
/// a product is needed, and it depends only on the low bytes of the factors: even bytes are multiplied as
/// 16-bit values and masked, odd bytes in place in the upper half.
TSR_INLINE __m256i times(__m256i nibbles, __m256i mult) {
    const __m256i sign = _mm256_set1_epi8(8), even = _mm256_set1_epi16(255);
    const __m256i codes = _mm256_sub_epi8(_mm256_xor_si256(nibbles, sign), sign);
    const __m256i low = _mm256_and_si256(_mm256_mullo_epi16(codes, mult), even);
    return _mm256_or_si256(low, _mm256_mullo_epi16(_mm256_andnot_si256(even, codes), mult));
}

void expand(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w) {
    const __m256i nibble = _mm256_set1_epi8(15);
    // The multiplier of each output in two 16-bit values.
    const __m256i spread = _mm256_setr_epi8(0, -1, 0, -1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3, -1,  //
                                            4, -1, 4, -1, 5, -1, 5, -1, 6, -1, 6, -1, 7, -1, 7, -1);
    for (int64_t quad = 0; quad < 8 * k_tiles; quad++, packed += 64, w += 128) {
        const int8_t* m = mult + 4 * quad / block * kChannels;
        TSR_UNROLL
        for (int i = 0; i < 2; i++) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 32 * i));
            const __m256i nibbles[2] = {_mm256_and_si256(bytes, nibble),
                                        _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)};
            TSR_UNROLL
            for (int half = 0; half < 2; half++) {
                int64_t eight;
                __builtin_memcpy(&eight, m + 16 * half + 8 * i, sizeof eight);
                const __m256i mults = _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), spread);
                _mm256_storeu_si256(reinterpret_cast<__m256i*>(w + 64 * half + 32 * i),
                                    times(nibbles[half], mults));
            }
        }
    }
}

/// Broadcasts four inputs to every 32-bit lane.
TSR_INLINE __m256i broadcast4(const uint8_t* bytes) {
    int32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return _mm256_set1_epi32(four);
}

/// -8 times the sums of the inputs of each 16-bit lane.
TSR_INLINE __m256i times_minus_8(const uint8_t* signed_bytes, int n_quads) {
    int32_t even = 0, odd = 0;
    for (int k = 0; k < 4 * n_quads; k += 4) {
        even += static_cast<int8_t>(signed_bytes[k]) + static_cast<int8_t>(signed_bytes[k + 1]);
        odd += static_cast<int8_t>(signed_bytes[k + 2]) + static_cast<int8_t>(signed_bytes[k + 3]);
    }
    return _mm256_set1_epi32((-8 * even & 0xffff) |
                             static_cast<int32_t>(static_cast<uint32_t>(-8 * odd) << 16));
}

/// Sums of groups of at most 32 inputs, multiplied by their multipliers, in 32 bits: low bytes by codes in
/// [-8, 7]; high bytes minus 128 by codes plus 8, which is compensated in advance. A lane holds 16 products:
/// at most 16 * 8 * 255 = 32640 in magnitude.
template <bool HasHigh>
TSR_INLINE void multiply_group(const uint8_t* high, const uint8_t* low, const uint8_t* packed,
                               const int8_t* mult, int n_quads, __m256i* high_sums, __m256i* low_sums) {
    const __m256i nibble = _mm256_set1_epi8(15), eight = _mm256_set1_epi8(8);
    alignas(32) uint8_t centred[kChannels];
    __m256i h[4], l[4];  // of outputs 0 to 7, 16 to 23, 8 to 15, 24 to 31
    if (HasHigh) {
        for (int k = 0; k < 4 * n_quads; k++) centred[k] = static_cast<uint8_t>(high[k] ^ 0x80);
        const __m256i start = times_minus_8(centred, n_quads);
        TSR_UNROLL
        for (int i = 0; i < 4; i++) h[i] = start;
    }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) l[i] = _mm256_setzero_si256();
    for (int quad = 0; quad < n_quads; quad++, packed += 64) {
        const __m256i xl = broadcast4(low + 4 * quad);
        __m256i xh = xl;
        if (HasHigh) xh = broadcast4(centred + 4 * quad);
        TSR_UNROLL
        for (int i = 0; i < 4; i += 2) {
            const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 16 * i));
            const __m256i raised[2] = {
                _mm256_xor_si256(_mm256_and_si256(bytes, nibble), eight),
                _mm256_xor_si256(_mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble), eight)};
            TSR_UNROLL
            for (int half = 0; half < 2; half++) {
                const __m256i codes = _mm256_sub_epi8(raised[half], eight);
                l[i + half] = _mm256_add_epi16(l[i + half], _mm256_maddubs_epi16(xl, codes));
                if (HasHigh)
                    h[i + half] = _mm256_add_epi16(h[i + half], _mm256_maddubs_epi16(raised[half], xh));
            }
        }
    }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) {
        const int first = 8 * (i >> 1) + 16 * (i & 1);
        const __m256i m =
            _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(mult + first)));
        const __m256i pairs = _mm256_blend_epi16(m, _mm256_slli_epi32(m, 16), 0xaa);
        low_sums[i] = _mm256_add_epi32(low_sums[i], _mm256_madd_epi16(l[i], pairs));
        if (HasHigh) high_sums[i] = _mm256_add_epi32(high_sums[i], _mm256_madd_epi16(h[i], pairs));
    }
}

template <bool HasHigh>
TSR_INLINE void multiply_row(const MultiplyPackedArgs& a) {
    const int n_quads = a.block < kChannels ? 4 : 8;
    __m256i high_sums[4], low_sums[4];
    TSR_UNROLL
    for (int i = 0; i < 4; i++) high_sums[i] = low_sums[i] = _mm256_setzero_si256();
    for (int64_t tile = 0; tile < a.k_tiles; tile++)
        for (int quad = 0; quad < 8; quad += n_quads) {
            const int64_t k = tile * kChannels + 4 * quad, at = tile * a.act_stride + 4 * quad;
            multiply_group<HasHigh>(a.high + at, (HasHigh ? a.low : a.high) + at, a.packed + 16 * k,
                                    a.mult + k / a.block * kChannels, n_quads, high_sums, low_sums);
        }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) {
        alignas(32) int32_t high[8], low[8];
        _mm256_store_si256(reinterpret_cast<__m256i*>(high), high_sums[i]);
        _mm256_store_si256(reinterpret_cast<__m256i*>(low), low_sums[i]);
        int64_t* sums = a.sums + 8 * (i >> 1) + 16 * (i & 1);
        for (int n = 0; n < 8; n++) sums[n] += int64_t{high[n]} * 256 + low[n];
    }
}

void multiply_packed(const MultiplyPackedArgs& a) {
    if (a.low)
        multiply_row<true>(a);
    else
        multiply_row<false>(a);
}

void interleave(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums) {
    const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80)), ones = _mm256_set1_epi8(1);
    __m256i sum[4];  // of columns 8 i and on
    TSR_UNROLL
    for (int i = 0; i < 4; i++) sum[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sums + 8 * i));
    for (int64_t quad = 0; quad < n_quads; quad++, bytes += 4 * stride, w += 128) {
        __m256i rows[4];
        TSR_UNROLL
        for (int r = 0; r < 4; r++)
            rows[r] = _mm256_xor_si256(
                _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes + r * stride)), sign);
        // Pairs of rows, then fours: lanes hold columns of 0 to 15 and of 16 to 31.
        const __m256i low[2] = {_mm256_unpacklo_epi8(rows[0], rows[1]),
                                _mm256_unpacklo_epi8(rows[2], rows[3])};
        const __m256i high[2] = {_mm256_unpackhi_epi8(rows[0], rows[1]),
                                 _mm256_unpackhi_epi8(rows[2], rows[3])};
        const __m256i fours[4] = {
            _mm256_unpacklo_epi16(low[0], low[1]), _mm256_unpackhi_epi16(low[0], low[1]),
            _mm256_unpacklo_epi16(high[0], high[1]), _mm256_unpackhi_epi16(high[0], high[1])};
        const __m256i out[4] = {_mm256_permute2x128_si256(fours[0], fours[1], 0x20),
                                _mm256_permute2x128_si256(fours[2], fours[3], 0x20),
                                _mm256_permute2x128_si256(fours[0], fours[1], 0x31),
                                _mm256_permute2x128_si256(fours[2], fours[3], 0x31)};
        TSR_UNROLL
        for (int i = 0; i < 4; i++) {
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(w + 32 * i), out[i]);
            const __m256i pairs = _mm256_maddubs_epi16(ones, out[i]);
            sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
        }
    }
    TSR_UNROLL
    for (int i = 0; i < 4; i++) _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + 8 * i), sum[i]);
}

}  // namespace

constinit const TileKernels kTilesAvx2 = {"avx2", multiply, expand, interleave, multiply_packed};

}  // namespace tessera::npu
