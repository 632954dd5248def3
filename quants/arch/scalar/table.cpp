// The kernel table of plain C: the executable definition of the float contract, which every other table
// equals bit for bit. Weights come from the reference decoders; clarity before speed.
#include "quants/kernels/table.h"
#include "quants/arch/scalar/p8.h"
#define TSR_ENCODE_SET baseline
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/formats.h"

namespace tessera::kernels {

namespace {

template <uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& a) {
    for (int64_t r = 0; r < a.n_rows; r++) {
        for (int64_t t = 0; t < a.n_tok; t++) a.y[t * a.y_stride + r] = 0.0f;
        const uint8_t* row = static_cast<const uint8_t*>(a.w) + static_cast<size_t>(r) * a.w_stride;
        for (int64_t k0 = 0; k0 < a.n_k; k0 += kPanelK) {
            const int64_t n = a.n_k - k0 < kPanelK ? a.n_k - k0 : kPanelK;
            dequantize_reference(kId, row + k0 / kBlock * kBlockBytes, a.scratch, n);
            for (int64_t t = 0; t < a.n_tok; t++) {
                const float* x = a.x + t * a.x_stride + k0;
                float acc = a.y[t * a.y_stride + r];
                for (int64_t k = 0; k < n; k++) acc = __builtin_fmaf(a.scratch[k], x[k], acc);
                a.y[t * a.y_stride + r] = acc;
            }
        }
    }
}

void gemm_panel(const float* panel, int64_t panel_stride, int64_t n_k, const float* x, int64_t x_stride,
                int64_t n_tok, float* y, int64_t y_stride, bool accumulate) {
    for (int64_t t = 0; t < n_tok; t++) {
        for (int r = 0; r < kPanelRows; r++) {
            float acc = accumulate ? y[t * y_stride + r] : 0.0f;
            for (int64_t k = 0; k < n_k; k++) {
                acc = __builtin_fmaf(panel[k * panel_stride + r], x[t * x_stride + k], acc);
            }
            y[t * y_stride + r] = acc;
        }
    }
}

constexpr KernelTable make_table() {
    KernelTable table{};
    table.name = "scalar";
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    table.gemm_panel = gemm_panel;
    scalar::set_packed(table);
    set_encoders(table);
    return table;
}

}  // namespace

constinit const KernelTable kScalarTable = make_table();

}  // namespace tessera::kernels
