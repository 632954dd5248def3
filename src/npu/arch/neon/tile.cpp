// The tile loops on baseline NEON. Bytes are widened to 16 bits, and both planes of activations are combined
// to a 16-bit value minus 32768, which takes one pass instead of two. An ISA unit: no std headers, and only
// the table is outside anonymous namespaces.
#include <arm_neon.h>

#include "quants/kernels/inline.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

namespace {

constexpr int64_t kChannels = 32, kTileBytes = kChannels * kChannels;
/// A lane sums 8 of the 32 inputs of a tile: 32 * 8 * 2^15 * 2^7 = 2^30.
constexpr int64_t kTilesPerFlush = 32;
/// Outputs at a time: with two rows 16 registers of sums.
constexpr int kOutputs = 8;

/// Loads 32 activations of a row for multiplication.
TSR_INLINE void widen(const MultiplyArgs& a, int64_t tile, int64_t row, int16_t* x) {
    const int64_t at = tile * a.act_stride + row * kChannels;
    TSR_UNROLL
    for (int i = 0; i < 32; i += 8) {
        uint16x8_t wide = vmovl_u8(vld1_u8(a.high + at + i));
        if (a.low) {
            wide = vorrq_u16(vshlq_n_u16(wide, 8), vmovl_u8(vld1_u8(a.low + at + i)));
            wide = veorq_u16(wide, vdupq_n_u16(0x8000));
        }
        vst1q_s16(x + i, vreinterpretq_s16_u16(wide));
    }
}

/// Adds the lanes of four outputs' sums to 64-bit sums.
TSR_INLINE void flush(const int32x4_t* lanes, int64_t* sums) {
    TSR_UNROLL
    for (int i = 0; i < 4; i += 2) {
        const int64x2_t pair = vpaddq_s64(vpaddlq_s32(lanes[i]), vpaddlq_s32(lanes[i + 1]));
        vst1q_s64(sums + i, vaddq_s64(vld1q_s64(sums + i), pair));
    }
}

/// Computes kOutputs outputs, from `first` on, of R rows. Each lane of a sum takes one of every four inputs.
template <int R>
TSR_INLINE void multiply_part(const MultiplyArgs& a, int64_t row, int64_t first) {
    for (int64_t begin = 0; begin < a.k_tiles; begin += kTilesPerFlush) {
        const int64_t end = begin + kTilesPerFlush < a.k_tiles ? begin + kTilesPerFlush : a.k_tiles;
        int32x4_t sums[R][kOutputs];
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            TSR_UNROLL
            for (int n = 0; n < kOutputs; n++) sums[r][n] = vdupq_n_s32(0);
        }
        for (int64_t tile = begin; tile < end; tile++) {
            int16_t x[R][kChannels];
            TSR_UNROLL
            for (int r = 0; r < R; r++) widen(a, tile, row + r, x[r]);
            const int8_t* w = a.w + tile * kTileBytes + 4 * first;
            for (int quad = 0; quad < 8; quad++, w += 128) {
                TSR_UNROLL
                for (int n = 0; n < kOutputs; n += 4) {
                    const int8x16_t bytes = vld1q_s8(w + 4 * n);
                    const int16x8_t wide[2] = {vmovl_s8(vget_low_s8(bytes)), vmovl_high_s8(bytes)};
                    TSR_UNROLL
                    for (int r = 0; r < R; r++) {
                        const int16x4_t four = vld1_s16(x[r] + 4 * quad);
                        TSR_UNROLL
                        for (int i = 0; i < 2; i++) {
                            int32x4_t* sum = sums[r] + n + 2 * i;
                            sum[0] = vmlal_s16(sum[0], vget_low_s16(wide[i]), four);
                            sum[1] = vmlal_s16(sum[1], vget_high_s16(wide[i]), four);
                        }
                    }
                }
            }
        }
        TSR_UNROLL
        for (int r = 0; r < R; r++) {
            int64_t* out = a.sums + (row + r) * kChannels + first;
            flush(sums[r], out);
            flush(sums[r] + 4, out + 4);
        }
    }
}

void multiply(const MultiplyArgs& a) {
    int64_t row = 0;
    for (; row + 2 <= a.rows; row += 2)
        for (int64_t n = 0; n < kChannels; n += kOutputs) multiply_part<2>(a, row, n);
    if (row < a.rows)
        for (int64_t n = 0; n < kChannels; n += kOutputs) multiply_part<1>(a, row, n);
}

/// Multiplies 16 codes of 4 outputs, in the low bits of each byte, by their multipliers.
TSR_INLINE int8x16_t times(uint8x16_t nibbles, int8x16_t mult) {
    const int8x16_t sign = vdupq_n_s8(8);
    return vmulq_s8(vsubq_s8(veorq_s8(vreinterpretq_s8_u8(nibbles), sign), sign), mult);
}

void expand(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w) {
    const uint8x16_t nibble = vdupq_n_u8(15);
    // Broadcasts each of four multipliers to the four inputs of its output.
    const uint8_t spread[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    for (int64_t quad = 0; quad < 8 * k_tiles; quad++, packed += 64, w += 128) {
        const int8x16_t m[2] = {vld1q_s8(mult + 4 * quad / block * kChannels),
                                vld1q_s8(mult + 4 * quad / block * kChannels + 16)};
        TSR_UNROLL
        for (int i = 0; i < 4; i++) {
            const uint8x16_t from = vaddq_u8(vld1q_u8(spread), vdupq_n_u8(static_cast<uint8_t>(4 * i)));
            const uint8x16_t bytes = vld1q_u8(packed + 16 * i);
            vst1q_s8(w + 16 * i, times(vandq_u8(bytes, nibble), vqtbl1q_s8(m[0], from)));
            vst1q_s8(w + 64 + 16 * i, times(vshrq_n_u8(bytes, 4), vqtbl1q_s8(m[1], from)));
        }
    }
}

void interleave(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums) {
    int32x4_t sum[8];  // of columns 4 i and on
    TSR_UNROLL
    for (int i = 0; i < 8; i++) sum[i] = vld1q_s32(sums + 4 * i);
    for (int64_t quad = 0; quad < n_quads; quad++, bytes += 4 * stride, w += 128) {
        TSR_UNROLL
        for (int half = 0; half < 2; half++) {
            int8x16x4_t rows;
            TSR_UNROLL
            for (int r = 0; r < 4; r++)
                rows.val[r] =
                    vreinterpretq_s8_u8(veorq_u8(vld1q_u8(bytes + r * stride + 16 * half), vdupq_n_u8(0x80)));
            vst4q_s8(w + 64 * half, rows);
            const int16x8_t columns[2] = {
                vaddq_s16(vaddl_s8(vget_low_s8(rows.val[0]), vget_low_s8(rows.val[1])),
                          vaddl_s8(vget_low_s8(rows.val[2]), vget_low_s8(rows.val[3]))),
                vaddq_s16(vaddl_high_s8(rows.val[0], rows.val[1]), vaddl_high_s8(rows.val[2], rows.val[3]))};
            TSR_UNROLL
            for (int i = 0; i < 2; i++) {
                int32x4_t* to = sum + 4 * half + 2 * i;
                to[0] = vaddw_s16(to[0], vget_low_s16(columns[i]));
                to[1] = vaddw_high_s16(to[1], columns[i]);
            }
        }
    }
    TSR_UNROLL
    for (int i = 0; i < 8; i++) vst1q_s32(sums + 4 * i, sum[i]);
}

}  // namespace

constinit const TileKernels kTilesNeon = {"neon", multiply, expand, interleave, nullptr};

}  // namespace tessera::npu
