// The passes over a row for the oldest processor of each kind, which needs no flags: four floats at a time on
// x86-64 and AArch64. The passes: src/sample/arch/passes.inl.
#include "src/sample/arch/passes.inl"

namespace tessera::sample {

extern constinit const RowPasses kPassesBaseline = {"baseline", copy,   find_best, weigh,
                                                    mass,       temper, weights,   prefer};

}  // namespace tessera::sample
