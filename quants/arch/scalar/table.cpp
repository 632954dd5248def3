// The kernel table of plain C: the executable definition of the float contract, which every other table
// equals bit for bit. Weights come from the reference decoders; clarity before speed.
#include "quants/kernels/table.h"

#include <string.h>

#include "quants/arch/scalar/packed.h"
#define TSR_ENCODE_SET baseline
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/formats.h"
#include "quants/pack/floats.h"

namespace tessera::kernels {

namespace {

/// n weights of row r, decoded to scratch, times all tokens from k0 on.
void add_products(const MatmulArgs& a, int64_t r, int64_t k0, int64_t n) {
    for (int64_t t = 0; t < a.n_tok; t++) {
        const float* x = a.x + t * a.x_stride + k0;
        float acc = k0 == 0 ? 0.0f : a.y[t * a.y_stride + r];
        for (int64_t k = 0; k < n; k++) acc = __builtin_fmaf(a.scratch[k], x[k], acc);
        a.y[t * a.y_stride + r] = acc;
    }
}

template <uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& a) {
    for (int64_t r = 0; r < a.n_rows; r++) {
        const uint8_t* row = static_cast<const uint8_t*>(a.w) + static_cast<size_t>(r) * a.w_stride;
        for (int64_t k0 = 0; k0 < a.n_k; k0 += kPanelK) {
            const int64_t n = a.n_k - k0 < kPanelK ? a.n_k - k0 : kPanelK;
            dequantize_reference(kId, row + k0 / kBlock * kBlockBytes, a.scratch, n);
            add_products(a, r, k0, n);
        }
    }
}

/// Row by row out of its group.
template <uint32_t kId, int kBytes>
void matmul_packed(const MatmulArgs& a) {
    uint8_t row[kPanelK * kBytes];
    for (int64_t r = 0; r < a.n_rows; r++) {
        const int64_t first = r / kGroupRows * kGroupRows * a.n_k + r % kGroupRows;
        const uint8_t* w = static_cast<const uint8_t*>(a.w) + first * kBytes;
        for (int64_t k0 = 0; k0 < a.n_k; k0 += kPanelK) {
            const int64_t n = a.n_k - k0 < kPanelK ? a.n_k - k0 : kPanelK;
            for (int64_t k = 0; k < n; k++)
                memcpy(row + k * kBytes, w + (k0 + k) * kGroupRows * kBytes, kBytes);
            dequantize_reference(kId, row, a.scratch, n);
            add_products(a, r, k0, n);
        }
    }
}

void gemm_panels(const PanelsArgs& a) {
    for (int64_t row = 0; row < a.n_panels * kPanelRows; row++) {
        const int64_t first = row / kPanelRows * a.panel_size + row % kPanelRows;
        for (int64_t t = 0; t < a.n_tok; t++) {
            float& y = a.y[t * a.y_stride + row];
            float acc = a.accumulate ? y : 0.0f;
            for (int64_t k = 0; k < a.n_k; k++) {
                const int64_t at = first + k * a.panel_stride;
                float w;
                if (a.half) {
                    dequantize_reference(kF16, static_cast<const uint16_t*>(a.w) + at, &w, 1);
                } else {
                    w = static_cast<const float*>(a.w)[at];
                }
                acc = __builtin_fmaf(w, a.x[t * a.x_stride + k], acc);
            }
            y = acc;
        }
    }
}

constexpr KernelTable make_table() {
    KernelTable table{};
    table.name = "scalar";
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    set_packed_floats(table);
#define TSR_P8_FLOAT(Name, name) \
    table.matmul_packed_f32[k##Name] = matmul_packed<k##Name, kFloatBytes<k##Name>>;
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT
    table.gemm_panels = gemm_panels;
    scalar::set_packed(table);
    set_encoders(table);
    return table;
}

}  // namespace

constinit const KernelTable kScalarTable = make_table();

}  // namespace tessera::kernels
