// Selects the table of passes over a row. All tables give the same bits and differ in speed only. Next:
// arch/passes.inl (the passes), logit_row.cpp (the caller).
#include "src/sample/passes.h"

#include <cstdlib>
#include <string_view>

#include "common/cpu.h"

namespace tessera::sample {

namespace {

const RowPasses* choose() {
#if defined(TSR_HAVE_AVX2)
    const char* wanted = std::getenv("TESSERA_ISA");
    const bool is_plain = wanted && std::string_view(wanted) == "scalar";
    if (cpu_features().avx2 && !is_plain) return &kPassesAvx2;
#endif
    return &kPassesBaseline;
}

}  // namespace

const RowPasses& row_passes() {
    static const RowPasses* const chosen = choose();
    return *chosen;
}

}  // namespace tessera::sample
