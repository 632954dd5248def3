// The kernel table of AVX2 with FMA and F16C, and the one that differs from it only by packed products made
// with AVX-VNNI (quants/arch/avxvnni). The units of these folders include no std headers and define nothing
// but tables and the packed functions (p8.h) outside their anonymous namespaces. The kernels:
// quants/kernels/*.inl.
#include "quants/kernels/table.h"
#include "quants/arch/avx2/isa.h"
#include "quants/arch/avx2/p8.h"
#include "quants/arch/avxvnni/p8.h"
#define TSR_ENCODE_SET avx2
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/matmul.inl"
#include "quants/kernels/unpack.inl"

namespace tessera::kernels {

namespace {

template <uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& args) {
    Matmul<Avx2Isa>{args, {kBlock, kBlockBytes}, Unpack<Avx2Isa, kId>::run}.run();
}

constexpr KernelTable make_table(const char* name) {
    KernelTable table{};
    table.name = name;
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    table.gemm_panel = gemm_panel<Avx2Isa>;
    avx2::set_packed(table);
    set_encoders(table);
    return table;
}

constexpr KernelTable make_avxvnni_table() {
    KernelTable table = make_table("avxvnni");
    avxvnni::set_products(table);
    return table;
}

}  // namespace

constinit const KernelTable kAvx2Table = make_table("avx2");
constinit const KernelTable kAvxVnniTable = make_avxvnni_table();

}  // namespace tessera::kernels
