// Declares the packed products of one instruction set, TSR_P8_ISA, and puts them into a table. The functions
// are plain ones, so that the units that define them can be split by type and still share no template
// instance. Included by ISA units. TSR_P8_TYPES may name another list of types than all of them.
#include "quants/kernels/formats.h"
#include "quants/kernels/table.h"

#if !defined(TSR_P8_TYPES)
#define TSR_P8_TYPES "quants/pack/types.inc"
#endif

namespace tessera::kernels::TSR_P8_ISA {

#define TSR_P8(Name, name) void matmul_##name(const PackedMatmulArgs& a);
#include TSR_P8_TYPES
#undef TSR_P8

namespace {

constexpr void set_products(KernelTable& table) {
#define TSR_P8(Name, name) table.packed[k##Name].matmul = matmul_##name;
#include TSR_P8_TYPES
#undef TSR_P8
}

}  // namespace
}  // namespace tessera::kernels::TSR_P8_ISA
#undef TSR_P8_TYPES
