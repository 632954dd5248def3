// Finds the probes of a kernel table. Compiled without ISA flags.
#include "quants/kernels/probe.h"

#include <string_view>

namespace tessera::kernels {

const ProbeTable* probe_table(const char* isa_name) {
    static constexpr const ProbeTable* kTables[] = {
#if defined(TSR_HAVE_AVX512)
        &kAvx512VnniProbe,
#endif
#if defined(TSR_HAVE_AVXVNNI)
        &kAvxVnniProbe,
#endif
#if defined(TSR_HAVE_AVX2)
        &kAvx2Probe,
#endif
#if defined(TSR_HAVE_NEON)
        &kI8mmProbe,
        &kDotprodProbe,
        &kNeonProbe,
#endif
        &kScalarProbe,
    };
    for (const ProbeTable* table : kTables) {
        if (std::string_view(table->name) == isa_name) return table;
    }
    return nullptr;
}

}  // namespace tessera::kernels
