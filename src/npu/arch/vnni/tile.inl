// The tile loops over 4-byte dot products with 32-bit sums, which do not saturate. The including file defines
// Wide, a vector of 16 32-bit lanes, its operations, and kRowsAtOnce, the number of rows whose sums fit the
// registers.

namespace tessera::npu {

namespace {

constexpr int64_t kChannels = 32, kTileBytes = kChannels * kChannels;
/// Tiles between flushes: 255 * 128 * 32 * 1024 fits in 31 bits.
constexpr int64_t kTilesPerFlush = 1024;

TSR_INLINE Wide splat4(const uint8_t* bytes) {
    int32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return splat(four);
}

TSR_INLINE void store_words(const Wide* two, int32_t* words) {
    store(words, two[0]);
    store(words + 16, two[1]);
}

/// Computes R rows: unsigned bytes; with two planes 32768 times the weight sums are subtracted.
template <int R, bool HasLow>
TSR_INLINE void multiply_rows(const MultiplyArgs& a, int64_t row) {
    const Wide ones = splat(0x01010101);
    for (int64_t begin = 0; begin < a.k_tiles; begin += kTilesPerFlush) {
        const int64_t end = begin + kTilesPerFlush < a.k_tiles ? begin + kTilesPerFlush : a.k_tiles;
        Wide high[R][2], low[R][2], weights[2];
        TSR_UNROLL
        for (int i = 0; i < 2; i++) {
            weights[i] = splat(0);
            TSR_UNROLL
            for (int r = 0; r < R; r++) high[r][i] = low[r][i] = splat(0);
        }
        for (int64_t tile = begin; tile < end; tile++) {
            const int8_t* w = a.w + tile * kTileBytes;
            const int64_t at = tile * a.act_stride + row * kChannels;
            for (int quad = 0; quad < 8; quad++, w += 128) {
                const Wide of[2] = {load(w), load(w + 64)};
                TSR_UNROLL
                for (int r = 0; r < R; r++) {
                    const Wide h = splat4(a.high + at + r * kChannels + 4 * quad);
                    TSR_UNROLL
                    for (int i = 0; i < 2; i++) high[r][i] = dot(high[r][i], h, of[i]);
                    if (!HasLow) continue;
                    const Wide l = splat4(a.low + at + r * kChannels + 4 * quad);
                    TSR_UNROLL
                    for (int i = 0; i < 2; i++) low[r][i] = dot(low[r][i], l, of[i]);
                }
                if (!HasLow) continue;
                TSR_UNROLL
                for (int i = 0; i < 2; i++) weights[i] = dot(weights[i], ones, of[i]);
            }
        }
        alignas(64) int32_t h[kChannels], l[kChannels], w[kChannels];
        if (HasLow) store_words(weights, w);
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            int64_t* sums = a.sums + (row + r) * kChannels;
            store_words(high[r], h);
            if (HasLow) store_words(low[r], l);
            for (int n = 0; n < kChannels; n++)
                sums[n] += HasLow ? int64_t{h[n]} * 256 + l[n] - int64_t{w[n]} * 32768 : int64_t{h[n]};
        }
    }
}

template <bool HasLow>
TSR_INLINE void multiply_planes(const MultiplyArgs& a) {
    int64_t row = 0;
    for (; row + kRowsAtOnce <= a.rows; row += kRowsAtOnce) multiply_rows<kRowsAtOnce, HasLow>(a, row);
    for (; row < a.rows; row++) multiply_rows<1, HasLow>(a, row);
}

void multiply(const MultiplyArgs& a) {
    if (a.low)
        multiply_planes<true>(a);
    else
        multiply_planes<false>(a);
}

/// Bytes minus 128 are signed, so codes are raised by 8 for the product, and 8 times the sum of the bytes is
/// subtracted.
template <bool HasLow>
TSR_INLINE void multiply_row(const MultiplyPackedArgs& a) {
    const Wide eight = splat(0x08080808), ones = splat(0x01010101),
               centre = splat(static_cast<int32_t>(0x80808080));
    const int n_quads = a.block < kChannels ? 4 : 8;
    const uint8_t* low_bytes = HasLow ? a.low : a.high;
    Wide high[2], low[2];
    TSR_UNROLL
    for (int i = 0; i < 2; i++) high[i] = low[i] = splat(0);
    const uint8_t* packed = a.packed;
    for (int64_t tile = 0; tile < a.k_tiles; tile++)
        for (int first = 0; first < 8; first += n_quads) {
            Wide h[2], l[2], of_bytes = splat(0);
            TSR_UNROLL
            for (int i = 0; i < 2; i++) h[i] = l[i] = splat(0);
            for (int quad = first; quad < first + n_quads; quad++, packed += 64) {
                const int64_t at = tile * a.act_stride + 4 * quad;
                const Wide bytes = load(packed), xl = splat4(low_bytes + at);
                const Wide raised[2] = {bits_differ(low_nibbles(bytes), eight),
                                        bits_differ(high_nibbles(bytes), eight)};
                TSR_UNROLL
                for (int i = 0; i < 2; i++) l[i] = dot(l[i], xl, sub_bytes(raised[i], eight));
                if (!HasLow) continue;
                const Wide xh = bits_differ(splat4(a.high + at), centre);
                TSR_UNROLL
                for (int i = 0; i < 2; i++) h[i] = dot(h[i], raised[i], xh);
                of_bytes = dot(of_bytes, ones, xh);
            }
            const int8_t* mult = a.mult + (tile * kChannels + 4 * first) / a.block * kChannels;
            TSR_UNROLL
            for (int i = 0; i < 2; i++) {
                const Wide m = widen_bytes(mult + 16 * i);
                low[i] = add(low[i], times(l[i], m));
                if (HasLow) high[i] = add(high[i], times(sub(h[i], times(of_bytes, splat(8))), m));
            }
        }
    alignas(64) int32_t h[kChannels], l[kChannels];
    store_words(high, h);
    store_words(low, l);
    for (int n = 0; n < kChannels; n++) a.sums[n] += int64_t{h[n]} * 256 + l[n];
}

void multiply_packed(const MultiplyPackedArgs& a) {
    if (a.low)
        multiply_row<true>(a);
    else
        multiply_row<false>(a);
}

// These two only move and widen bytes.
void expand(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w) {
    kTilesAvx2.expand(packed, mult, k_tiles, block, w);
}
void interleave(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums) {
    kTilesAvx2.interleave(bytes, stride, n_quads, w, sums);
}

}  // namespace

}  // namespace tessera::npu
