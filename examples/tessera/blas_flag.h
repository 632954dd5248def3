#pragma once
// The flag of all commands that compute with a model: OpenBLAS for float products.
#include "examples/tessera/options.h"

namespace tessera {

inline void declare_blas(Options& options, bool& blas) {
    options.flag(
        "--blas", blas,
        "Let OpenBLAS compute float products (weights in F32, F16 and BF16; all with --precise) of 32 "
        "tokens and more: equal within float rounding, not bit by bit.");
}

}  // namespace tessera
