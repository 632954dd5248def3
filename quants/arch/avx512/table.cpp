// The kernel table of AVX-512 F, BW, DQ, VL and VNNI; packing and the quantization of activations are those
// of AVX2. The units of this folder include no std headers and define nothing but the table and the packed
// products (packed.h) outside their anonymous namespaces. The kernels: quants/kernels/*.inl.
#include "quants/arch/avx2/packed.h"
#include "quants/arch/avx512/isa.h"
#include "quants/arch/avx512/packed.h"
#define TSR_ENCODE_SET avx2
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/float_table.inl"

namespace tessera::kernels {

namespace {

constexpr KernelTable make_table() {
    KernelTable table = float_table<Avx512Isa>("avx512vnni");
    avx2::set_packed(table);
    avx512::set_products(table);
    set_encoders(table);
    return table;
}

}  // namespace

constinit const KernelTable kAvx512VnniTable = make_table();

}  // namespace tessera::kernels
