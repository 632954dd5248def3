// The kernel table of NEON, which every AArch64 processor has, and those that differ from it only by packed
// products made of dot product instructions (quants/arch/dotprod) and of 8-bit matrix instructions
// (quants/arch/i8mm). The units of these folders include no std headers and define nothing but tables and the
// packed functions (packed.h) outside their anonymous namespaces. The kernels: quants/kernels/*.inl.
#include "quants/arch/dotprod/packed.h"
#include "quants/arch/i8mm/packed.h"
#include "quants/arch/neon/isa.h"
#include "quants/arch/neon/packed.h"
#define TSR_ENCODE_SET baseline
#include "quants/encode/set_encoders.inl"
#include "quants/kernels/float_table.inl"

namespace tessera::kernels {

namespace {

constexpr KernelTable make_table(const char* name) {
    KernelTable table = float_table<NeonIsa>(name);
    neon::set_packed(table);
    set_encoders(table);
    return table;
}

constexpr KernelTable make_dotprod_table() {
    KernelTable table = make_table("dotprod");
    dotprod::set_products(table);
    return table;
}

constexpr KernelTable make_i8mm_table() {
    KernelTable table = make_table("i8mm");
    i8mm::set_products(table);
    return table;
}

}  // namespace

constinit const KernelTable kNeonTable = make_table("neon");
constinit const KernelTable kDotprodTable = make_dotprod_table();
constinit const KernelTable kI8mmTable = make_i8mm_table();

}  // namespace tessera::kernels
