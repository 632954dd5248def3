#pragma once
// OpenBLAS behind a table of the functions that this program uses. The library is loaded on demand, since its
// start maps memory and creates a thread for each processor; a program that does not use it has none of that.
#include <cstdint>
#include <string>

#include "common/expected.h"

namespace tessera::blas {

/// y[t, r] = sum_k w[r, k] * x[t, k], or y[t, r] plus that. Rows are *_stride floats apart.
struct Product {
    const float* w;  // [n_rows, n_k]
    int64_t w_stride;
    int64_t n_rows, n_k;
    const float* x;  // [n_tok, n_k]
    int64_t x_stride;
    int64_t n_tok;
    float* y;  // [n_tok, n_rows]
    int64_t y_stride;
    bool accumulate;
};

struct OpenBlas {
    std::string version;  ///< "0.3.21"
    std::string core;     ///< the processor that its kernels are written for: "SkylakeX"
    /// Computes in the calling thread; any number of threads may call it at the same time.
    void (*multiply)(const Product& product) = nullptr;
};

/// The library of this machine, in one thread a call. It stays loaded. Errors: Unsupported, in a build
/// without it (TSR_BLAS=OFF) or where the library cannot be loaded, with the reason.
Result<const OpenBlas*> open_blas();

}  // namespace tessera::blas
