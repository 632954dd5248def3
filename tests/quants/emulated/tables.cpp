// The kernel tables of the emulated instruction sets: their own tiles, the rest from AVX2.
#include "tests/quants/emulated/tables.h"

#include "quants/arch/avx2/isa.h"
#include "quants/arch/avx2/packed.h"
#include "quants/kernels/float_table.inl"
#include "tests/quants/emulated/products.h"

namespace tessera::kernels {

namespace {

/// A Wide is a pair of registers on AVX2, so only the shape of the tiles is to be taken over.
struct EmulatedAvx512Isa : Avx2Isa {
    static constexpr int kTileTokens = 24;
    static constexpr int kGemmPanels = 4;
};

constexpr KernelTable make_table(const char* name) {
    KernelTable table = float_table<EmulatedAvx512Isa, Avx2Isa>(name);
    avx2::set_packed(table);
    return table;
}

constexpr KernelTable make_avxvnni_table() {
    KernelTable table = make_table("emulated avxvnni");
    emulated_avxvnni::set_products(table);
    return table;
}

constexpr KernelTable make_avx512_table() {
    KernelTable table = make_table("emulated avx512vnni");
    emulated_avx512::set_products(table);
    return table;
}

}  // namespace

constinit const KernelTable kEmulatedAvxVnniTable = make_avxvnni_table();
constinit const KernelTable kEmulatedAvx512VnniTable = make_avx512_table();

}  // namespace tessera::kernels
