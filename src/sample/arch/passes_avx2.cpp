// The passes over a row for AVX2, eight floats at a time. Without FMA: fused or not, bits would differ. The
// passes: src/sample/arch/passes.inl.
#include "src/sample/arch/passes.inl"

namespace tessera::sample {

extern constinit const RowPasses kPassesAvx2 = {"avx2", copy,   find_best, weigh,
                                                mass,   temper, weights,   prefer};

}  // namespace tessera::sample
