#pragma once
// Chooses the kernel table: the best one that the processor and the operating system allow, or the one that
// the environment variable TESSERA_ISA names.
#include <span>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "quants/kernels/table.h"

namespace tessera::kernels {

struct IsaInfo {
    std::string_view name;
    const KernelTable* table;
    bool usable;             ///< on this machine
    std::string_view needs;  ///< e.g. "AVX2, FMA, F16C"
};

/// Every table compiled into this program, best first; "scalar" is last and always usable.
std::span<const IsaInfo> all_isas();

/// `wanted` empty: the best usable. Unknown or unusable names are errors that list the usable ones.
Result<const IsaInfo*> choose_isa(std::string_view wanted);

/// choose_isa of TESSERA_ISA (unset or empty = best).
Result<const IsaInfo*> choose_isa_from_environment();

/// The row of quants/kernels/tuning.h for this processor.
const CpuTuning& choose_tuning();

}  // namespace tessera::kernels
