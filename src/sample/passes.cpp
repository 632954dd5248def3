// Chooses the passes over a row. All give the same bits, so nothing but the time depends on it. Next:
// arch/passes.inl (the passes), logit_row.cpp (who calls them).
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
