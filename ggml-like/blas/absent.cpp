// Builds without OpenBLAS (TSR_BLAS=OFF) have this file in place of openblas.cpp.
#include "ggml-like/blas/openblas.h"

namespace tessera::blas {

Result<const OpenBlas*> open_blas() {
    return fail(ErrorCode::Unsupported,
                "OpenBLAS: expected a build with it, found one that was configured with TSR_BLAS=OFF");
}

}  // namespace tessera::blas
