// Declares the whole packed path of one instruction set, TSR_P8_ISA, and puts it into a table. An instruction
// set that only has better products includes packed_products.inl instead and takes the rest from another
// table. Included by ISA units.
#include "quants/kernels/packed_products.inl"

namespace tessera::kernels::TSR_P8_ISA {

void quantize_act(const float* x, int64_t n_k, const ActRow& out);

#define TSR_P8(Name, name)                                                                  \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group); \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride);
#include "quants/pack/types.inc"
#undef TSR_P8

namespace {

constexpr void set_packed(KernelTable& table) {
#define TSR_P8(Name, name) table.packed[k##Name] = {pack_##name, unpack_##name, nullptr};
#include "quants/pack/types.inc"
#undef TSR_P8
#if !defined(TSR_OTHER_PRODUCTS)  // a build without this set's products (TSR_ISA=native)
    set_products(table);
#endif
    table.quantize_act = quantize_act;
}

}  // namespace
}  // namespace tessera::kernels::TSR_P8_ISA
