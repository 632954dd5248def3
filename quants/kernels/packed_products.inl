// Declares the packed products of one instruction set, TSR_P8_ISA, and puts them into a table. The functions
// are not templates, so that the units that define them can be split by type without sharing template
// instances. Included by ISA units.
#include "quants/kernels/formats.h"
#include "quants/kernels/table.h"

namespace tessera::kernels::TSR_P8_ISA {

#define TSR_P8(Name, name) void matmul_##name(const PackedMatmulArgs& a);
#include "quants/pack/types.inc"
#undef TSR_P8

namespace {

constexpr void set_products(KernelTable& table) {
#define TSR_P8(Name, name) table.packed[k##Name].matmul = matmul_##name;
#include "quants/pack/types.inc"
#undef TSR_P8
}

}  // namespace
}  // namespace tessera::kernels::TSR_P8_ISA
