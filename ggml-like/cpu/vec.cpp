// Finds the vector functions of a kernel table. Assumes that quants/dispatch has chosen, so that a table is
// usable when its name is looked up. The tables: ggml-like/cpu/arch.
#include "ggml-like/cpu/vec.h"

#include <string_view>

namespace tessera::cpu {

namespace {

constexpr const VecTable* kTables[] = {
#if defined(TSR_HAVE_AVX2)
    &kVecAvx512Vnni, &kVecAvxVnni, &kVecAvx2,
#endif
#if defined(TSR_HAVE_NEON)
    &kVecI8mm,       &kVecDotprod, &kVecNeon,
#endif
    &kVecScalar,
};

}  // namespace

const VecTable* vec_table(const char* isa_name) {
    for (const VecTable* table : kTables) {
        if (std::string_view(table->name) == isa_name) return table;
    }
    return nullptr;
}

}  // namespace tessera::cpu
