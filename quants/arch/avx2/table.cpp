// The kernel table of AVX2 with FMA and F16C, and the one that differs from it only by packed products made
// with AVX-VNNI (quants/arch/avxvnni). The units of these folders include no std headers and define nothing
// but tables and the packed functions (packed.h) outside their anonymous namespaces. The kernels:
// quants/kernels/*.inl.
#include "quants/arch/avx2/dot.h"
#include "quants/arch/avx2/isa.h"
#include "quants/arch/avx2/packed.h"
#if defined(TSR_HAVE_AVXVNNI)
#include "quants/arch/avxvnni/packed.h"
#endif
#define TSR_ENCODE_SET avx2
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/float_table.inl"

namespace tessera::kernels {

namespace {

constexpr KernelTable make_table(const char* name, int64_t act_tile) {
    KernelTable table = float_table<Avx2Isa>(name);
    avx2::set_packed(table);
    set_encoders(table);
    table.act_tile = act_tile;
    return table;
}

#if defined(TSR_HAVE_AVXVNNI)
constexpr KernelTable make_avxvnni_table() {
    KernelTable table = make_table("avxvnni", 1);
    avxvnni::set_products(table);
    return table;
}
#endif

}  // namespace

constinit const KernelTable kAvx2Table = make_table("avx2", kActTile);
#if defined(TSR_HAVE_AVXVNNI)
constinit const KernelTable kAvxVnniTable = make_avxvnni_table();
#endif

}  // namespace tessera::kernels
