#pragma once
// Packed floats: 8 rows side by side, k after k, so that the weights of one k of 8 rows are one load. Packing
// functions are the same in every kernel table and compiled without ISA flags, since memory bounds them.
// Contract of the functions: quants/kernels/packed.h. Included by ISA units: only C headers here, and nothing
// inline.
#include <stddef.h>
#include <stdint.h>

#include "quants/kernels/formats.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {

#define TSR_P8_FLOAT(Name, name)                                                            \
    void pack_##name(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group); \
    void unpack_##name(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride);
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT

namespace {

template <uint32_t kId>
constexpr int kFloatBytes = 0;
#define TSR_TYPE(Name, id, name, block, bytes, role) \
    template <>                                      \
    inline constexpr int kFloatBytes<id> = block == 1 ? bytes : 0;
#include "quants/types.def"
#undef TSR_TYPE

constexpr void set_packed_floats(KernelTable& table) {
#define TSR_P8_FLOAT(Name, name) table.packed[k##Name] = {pack_##name, unpack_##name, nullptr};
#include "quants/pack/floats.inc"
#undef TSR_P8_FLOAT
}

}  // namespace
}  // namespace tessera::kernels
