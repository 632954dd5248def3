// Declares the packed path of one instruction set, TSR_P8_ISA, and puts it into a table. The functions are
// plain ones, so that the units that define them can be split by type and still share no template instance.
// Included by ISA units.
#include "quants/kernels/formats.h"
#include "quants/kernels/table.h"

namespace tessera::kernels::TSR_P8_ISA {

void quantize_act(const float* x, int64_t n_k, const ActRow& out);

#define TSR_P8(Name, name)                                                                    \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group);   \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride); \
    void matmul_##name(const PackedMatmulArgs& a);
#include "quants/pack/types.inc"
#undef TSR_P8

namespace {

constexpr void set_packed(KernelTable& table) {
#define TSR_P8(Name, name) table.packed[k##Name] = {pack_##name, unpack_##name, matmul_##name};
#include "quants/pack/types.inc"
#undef TSR_P8
    table.quantize_act = quantize_act;
}

}  // namespace
}  // namespace tessera::kernels::TSR_P8_ISA
