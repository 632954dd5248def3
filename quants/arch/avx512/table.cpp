// The kernel table of AVX-512 F, BW, DQ, VL and VNNI; packing and the quantization of activations are those
// of AVX2. The units of this folder include no std headers and define nothing but the table and the packed
// products (p8.h) outside their anonymous namespaces. The kernels: quants/kernels/*.inl.
#include "quants/kernels/table.h"
#include "quants/arch/avx2/p8.h"
#include "quants/arch/avx512/isa.h"
#include "quants/arch/avx512/p8.h"
#define TSR_ENCODE_SET avx2
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/matmul.inl"
#include "quants/kernels/unpack.inl"

namespace tessera::kernels {

namespace {

template <uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& args) {
    Matmul<Avx512Isa>{args, {kBlock, kBlockBytes}, Unpack<Avx512Isa, kId>::run}.run();
}

constexpr KernelTable make_table() {
    KernelTable table{};
    table.name = "avx512vnni";
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    table.gemm_panel = gemm_panel<Avx512Isa>;
    avx2::set_packed(table);
    avx512::set_products(table);
    set_encoders(table);
    return table;
}

}  // namespace

constinit const KernelTable kAvx512VnniTable = make_table();

}  // namespace tessera::kernels
