// The packed path in portable C, which defines the meaning of every packed byte and every bit of the product
// (docs/design/numerics.md, "Integer path"). Written to be read; the other instruction sets are compared with
// it by memcmp. The formats: quants/pack/formats.h.
#include "quants/arch/scalar/packed.h"

#include "quants/pack/formats.h"

namespace tessera::kernels::scalar {
namespace {

template <class F>
void pack(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {
    const int64_t n_units = n_k / F::kUnitK;
    memset(group, 0, static_cast<size_t>(n_units) * F::kUnitBytes);
    for (int row = 0; row < kGroupRows; row++) {
        const size_t at = static_cast<size_t>(row) * w_stride;
        uint8_t* unit = static_cast<uint8_t*>(group);
        for (int64_t i = 0; i < n_units; i++, unit += F::kUnitBytes) {
            typename F::Disk block = {};
            const size_t block_at = at + static_cast<size_t>(i) * sizeof block;
            if (row < n_rows) memcpy(&block, static_cast<const uint8_t*>(w) + block_at, sizeof block);
            RowUnit u;
            F::read_disk(block, u);
            F::write_head(u, unit, row);
            if constexpr (F::kBits != 0) {
                for (int b = 0; b < F::kBlocks; b++) {
                    write_codes<F::kBits>(u.code + 32 * b, unit + codes_at<F>(b), row);
                }
            }
        }
    }
}

template <class F>
void unpack(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) {
    const int64_t n_units = n_k / F::kUnitK;
    for (int row = 0; row < n_rows; row++) {
        uint8_t* to = static_cast<uint8_t*>(w) + static_cast<size_t>(row) * w_stride;
        const uint8_t* unit = static_cast<const uint8_t*>(group);
        for (int64_t i = 0; i < n_units; i++, to += sizeof(typename F::Disk), unit += F::kUnitBytes) {
            RowUnit u;
            read_packed<F>(unit, row, u);
            typename F::Disk block;
            F::write_disk(u, block);
            memcpy(to, &block, sizeof block);
        }
    }
}

/// One token's share of a unit: a its activations, d and s their scales per 32, sum16 their sums per 16.
struct ActUnit {
    const int8_t* q;
    const float* d;
    const float* s;
    const int16_t* sum16;
};

/// One row's unit and its integer weights, which all tokens share.
template <class F>
struct RowWeights {
    RowUnit u;
    int weight[F::kUnitK];

    RowWeights(const uint8_t* unit, int row) {
        read_packed<F>(unit, row, u);
        for (int k = 0; k < F::kUnitK; k++) weight[k] = weight_at<F>(u, k);
    }
};

/// The exact sum of block b: integer scale and zero point included.
template <class F>
int32_t block_sum(const RowWeights<F>& w, int b, const int8_t* q) {
    int32_t sum = 0;
    for (int half = 0; half < 2; half++) {
        int32_t part = 0;
        for (int k = 32 * b + 16 * half, end = k + 16; k < end; k++) part += w.weight[k] * q[k];
        sum += part * F::scale(w.u, 2 * b + half);
    }
    return sum;
}

/// total + the unit's share of the product, in the contract's order.
template <class F>
float add_unit(float total, const RowWeights<F>& w, const ActUnit& a) {
    const RowUnit& u = w.u;
    const float d = F::d(u), m = F::kMin == MinKind::None ? 0.0f : half_bits_to_float(u.m);
    if constexpr (!F::kSuper) {
        total = __builtin_fmaf(static_cast<float>(block_sum<F>(w, 0, a.q)), d * a.d[0], total);
        if constexpr (F::kMin == MinKind::PerBlock) total = __builtin_fmaf(m, a.s[0], total);
        return total;
    }
    float product = 0, offset = 0;
    for (int b = 0; b < F::kBlocks; b++) {
        product = __builtin_fmaf(static_cast<float>(block_sum<F>(w, b, a.q)), a.d[b], product);
        if constexpr (F::kMin == MinKind::PerBlock) {
            total = __builtin_fmaf(-(m * static_cast<float>(F::min(u, 2 * b))), a.s[b], total);
        }
        if constexpr (F::kMin == MinKind::PerHalf) {
            const int32_t sum = F::min(u, 2 * b) * a.sum16[2 * b] + F::min(u, 2 * b + 1) * a.sum16[2 * b + 1];
            offset = __builtin_fmaf(static_cast<float>(sum), a.d[b], offset);
        }
    }
    total = __builtin_fmaf(product, d, total);
    if constexpr (F::kMin == MinKind::PerHalf) total = __builtin_fmaf(-m, offset, total);
    return total;
}

template <class F>
void matmul(const PackedMatmulArgs& a) {
    const int64_t n_units = a.n_k / F::kUnitK;
    for (int64_t row = 0; row < a.n_rows; row++) {
        float* y = a.y + row;
        for (int64_t t = 0; t < a.n_tok; t++) y[t * a.y_stride] = 0.0f;
        const uint8_t* unit = static_cast<const uint8_t*>(a.w) + row / kGroupRows * n_units * F::kUnitBytes;
        for (int64_t u = 0; u < n_units; u++, unit += F::kUnitBytes) {
            const RowWeights<F> w(unit, static_cast<int>(row % kGroupRows));
            for (int64_t t = 0; t < a.n_tok; t++) {
                const int64_t at = t * a.x.d_stride + u * F::kBlocks;
                const ActUnit act = {a.x.q + t * a.x.q_stride + u * F::kUnitK, a.x.d + at, a.x.s + at,
                                     a.x.sum16 + 2 * at};
                float& sum = y[t * a.y_stride];
                sum = add_unit<F>(sum, w, act);
            }
        }
    }
}

/// NaN becomes 0, infinities the largest finite float.
float finite(float x) {
    if (x != x) return 0.0f;
    return x > 0x1.fffffep127f ? 0x1.fffffep127f : x < -0x1.fffffep127f ? -0x1.fffffep127f : x;
}

}  // namespace

void quantize_act(const float* x, int64_t n_k, const ActRow& out) {
    for (int64_t b = 0; b < n_k / kActBlock; b++, x += kActBlock) {
        float largest = 0.0f;
        for (int i = 0; i < kActBlock; i++) {
            const float size = __builtin_fabsf(finite(x[i]));
            if (size > largest) largest = size;
        }
        if (largest < kActSmallest) largest = 0.0f;
        const float scale = largest > 0.0f ? 127.0f / largest : 0.0f;
        const int64_t at = b * out.step;
        int32_t sum[4] = {};
        for (int i = 0; i < kActBlock; i++) {
            const long q = __builtin_lrintf(finite(x[i]) * scale);
            out.q[kActBlock * at + i] = static_cast<int8_t>(q);
            sum[i / 16 * 2 + i % 4 / 2] += static_cast<int32_t>(q);
        }
        out.d[at] = largest / 127.0f;
        out.s[at] = out.d[at] * static_cast<float>(sum[0] + sum[1] + sum[2] + sum[3]);
        for (int i = 0; i < 2; i++) out.sum16[2 * at + i] = static_cast<int16_t>(sum[2 * i] + sum[2 * i + 1]);
        for (int i = 0; i < 4; i++) out.sum8[4 * at + i] = static_cast<int16_t>(sum[i]);
    }
}

#define TSR_P8(Name, name)                                                                     \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group) {   \
        pack<Name>(w, w_stride, n_rows, n_k, group);                                           \
    }                                                                                          \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride) { \
        unpack<Name>(group, n_rows, n_k, w, w_stride);                                         \
    }                                                                                          \
    void matmul_##name(const PackedMatmulArgs& a) { matmul<Name>(a); }
#include "quants/pack/types.inc"
#undef TSR_P8

}  // namespace tessera::kernels::scalar
