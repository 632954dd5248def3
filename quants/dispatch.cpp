// The list of kernel tables in this program and the choice among them and among the rows of tuning.h.
// common/cpu.h detects what the processor and the operating system allow; the tables themselves are in
// quants/arch. Compiled without ISA flags.
#include "quants/dispatch.h"

#include <cstdlib>

#include "common/cpu.h"

namespace tessera::kernels {

std::span<const IsaInfo> all_isas() {
    static const IsaInfo isas[] = {
#if defined(TSR_HAVE_AVX512)
        {"avx512vnni", &kAvx512VnniTable, cpu_features().avx512_vnni, "AVX-512 F, BW, DQ, VL, VNNI"},
#endif
#if defined(TSR_HAVE_AVXVNNI)
        {"avxvnni", &kAvxVnniTable, cpu_features().avx_vnni, "AVX2, FMA, F16C, AVX-VNNI"},
#endif
#if defined(TSR_HAVE_AVX2)
        {"avx2", &kAvx2Table, cpu_features().avx2, "AVX2, FMA, F16C"},
#endif
#if defined(TSR_HAVE_NEON)
        {"i8mm", &kI8mmTable, cpu_features().i8mm, "Advanced SIMD with dot and 8-bit matrix products"},
        {"dotprod", &kDotprodTable, cpu_features().dotprod, "Advanced SIMD with dot products"},
        {"neon", &kNeonTable, cpu_features().neon, "Advanced SIMD"},
#endif
        {"scalar", &kScalarTable, true, "nothing"},
    };
    return isas;
}

Result<const IsaInfo*> choose_isa(std::string_view wanted) {
    std::string usable;
    for (const IsaInfo& isa : all_isas()) {
        if (isa.usable && (wanted.empty() || wanted == isa.name)) return &isa;
        if (isa.usable) usable += (usable.empty() ? "" : ", ") + std::string(isa.name);
    }
    for (const IsaInfo& isa : all_isas()) {
        if (wanted == isa.name) {
            return fail(
                ErrorCode::Unsupported,
                "instruction set '%.*s' needs %.*s, which this machine or its operating system lacks; "
                "usable here: %s",
                static_cast<int>(wanted.size()), wanted.data(), static_cast<int>(isa.needs.size()),
                isa.needs.data(), usable.c_str());
        }
    }
    return fail(ErrorCode::InvalidArgument, "unknown instruction set '%.*s'; usable here: %s",
                static_cast<int>(wanted.size()), wanted.data(), usable.c_str());
}

Result<const IsaInfo*> choose_isa_from_environment() {
    const char* wanted = std::getenv("TESSERA_ISA");
    auto isa = choose_isa(wanted ? wanted : "");
    if (!isa) return fail_in("TESSERA_ISA", std::move(isa.error()));
    return isa;
}

const CpuTuning& choose_tuning() {
    const CpuFeatures& cpu = cpu_features();
    return cpu.zen5 ? kZen5Tuning : cpu.zen3 ? kZen3Tuning : cpu.intel ? kIntelTuning : kDefaultTuning;
}

}  // namespace tessera::kernels
