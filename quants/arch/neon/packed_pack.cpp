// Packing, unpacking and the quantization of activations on NEON.
#include "quants/arch/neon/packed_unit.h"
//
#include "quants/kernels/packed_pack.inl"

namespace tessera::kernels::neon {
namespace {

/// 4 floats at p: NaN as 0, infinities as the largest finite float.
TSR_INLINE float32x4_t load_finite(const float* p) {
    const float32x4_t x = vld1q_f32(p), largest = vdupq_n_f32(0x1.fffffep127f);
    const uint32x4_t number = vandq_u32(vreinterpretq_u32_f32(x), vceqq_f32(x, x));
    return vmaxq_f32(vminq_f32(vreinterpretq_f32_u32(number), largest), vnegq_f32(largest));
}

}  // namespace

void quantize_act(const float* x, int64_t n_k, const ActRow& out) {
    for (int64_t b = 0; b < n_k / kActBlock; b++, x += kActBlock) {
        float32x4_t v[8];
        float32x4_t sizes = vdupq_n_f32(0.0f);
        TSR_UNROLL
        for (int i = 0; i < 8; i++) {
            v[i] = load_finite(x + 4 * i);
            sizes = vmaxq_f32(sizes, vabsq_f32(v[i]));
        }
        float largest = vmaxvq_f32(sizes);
        if (largest < kActSmallest) largest = 0.0f;
        const float32x4_t scale = vdupq_n_f32(largest > 0.0f ? 127.0f / largest : 0.0f);
        const int64_t at = b * out.step;
        int32_t sum[2];
        TSR_UNROLL
        for (int half = 0; half < 2; half++) {
            int16x8_t q[2];
            TSR_UNROLL
            for (int i = 0; i < 2; i++) {
                const float32x4_t* four = v + 4 * half + 2 * i;
                q[i] = vmovn_high_s32(vmovn_s32(vcvtnq_s32_f32(vmulq_f32(four[0], scale))),
                                      vcvtnq_s32_f32(vmulq_f32(four[1], scale)));
            }
            // Sums over k % 4 = 0 and 1, 2 and 3, of 8 k each.
            const int16x8_t both = vaddq_s16(q[0], q[1]);
            const int16x4_t pairs = vpadd_s16(vget_low_s16(both), vget_high_s16(both));
            const int16x4_t sum8 = vadd_s16(pairs, vext_s16(pairs, pairs, 2));
            const uint32_t two = vget_lane_u32(vreinterpret_u32_s16(sum8), 0);
            __builtin_memcpy(out.sum8 + 4 * at + 2 * half, &two, sizeof two);
            sum[half] = vaddv_s16(pairs);
            vst1q_s8(out.q + kActBlock * at + 16 * half, vmovn_high_s16(vmovn_s16(q[0]), q[1]));
            out.sum16[2 * at + half] = static_cast<int16_t>(sum[half]);
        }
        out.d[at] = largest / 127.0f;
        out.s[at] = out.d[at] * static_cast<float>(sum[0] + sum[1]);
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

}  // namespace tessera::kernels::neon
