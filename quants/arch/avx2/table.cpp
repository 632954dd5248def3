// The kernel table of AVX2 with FMA and F16C. Only the units of this folder are compiled for it; they include
// no std headers and define nothing but the table and the packed functions (p8.h) outside their anonymous
// namespaces. The kernels: quants/kernels/*.inl.
#include "quants/kernels/table.h"
#include "quants/arch/avx2/isa.h"
#include "quants/arch/avx2/p8.h"
#include "quants/kernels/matmul.inl"
#include "quants/kernels/unpack.inl"

namespace tessera::kernels {

namespace {

template <uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& args) {
    Matmul<Avx2Isa>{args, {kBlock, kBlockBytes}, Unpack<Avx2Isa, kId>::run}.run();
}

constexpr KernelTable make_table() {
    KernelTable table{};
    table.name = "avx2";
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    table.gemm_panel = gemm_panel<Avx2Isa>;
    avx2::set_packed(table);
    return table;
}

}  // namespace

constinit const KernelTable kAvx2Table = make_table();

}  // namespace tessera::kernels
