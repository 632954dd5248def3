// The float part of an instruction set's kernel table: one product a weight type, and those of packed floats,
// over its vector operations. Included by ISA units, which add the packed functions and encoders; no std
// headers here.
#include "quants/kernels/float_matmul.inl"
#include "quants/kernels/float_unpack.inl"
#include "quants/kernels/packed_floats.inl"
#include "quants/kernels/table.h"

namespace tessera::kernels {

namespace {

/// Isa gives the shape of the tiles, Decoder the registers that weights are unpacked with.
template <class Isa, class Decoder, uint32_t kId, int kBlock, int kBlockBytes>
void matmul(const MatmulArgs& args) {
    Matmul<Isa>{args, {kBlock, kBlockBytes}, Unpack<Decoder, kId>::run}.run();
}

template <class Isa, uint32_t kId>
void matmul_packed(const MatmulArgs& args) {
    PackedFloats<Isa, PackedElement<Isa, kId>>{args}.run();
}

template <class Isa, class Decoder = Isa>
constexpr KernelTable float_table(const char* name) {
    KernelTable table{};
    table.name = name;
#define TSR_WEIGHT(id, block, bytes) table.matmul_f32[id] = matmul<Isa, Decoder, id, block, bytes>;
#include "quants/kernels/weights.def"
#undef TSR_WEIGHT
    set_packed_floats(table);
#define TSR_P8_FLOAT(Name, name) table.matmul_packed_f32[k##Name] = matmul_packed<Isa, k##Name>;
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT
    table.gemm_panels = gemm_panels<Isa>;
    return table;
}

}  // namespace

}  // namespace tessera::kernels
