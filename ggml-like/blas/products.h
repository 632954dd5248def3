#pragma once
// Float products by OpenBLAS. Their results are those of the kernels within float rounding, and not
// bit-equal: the order of its sums depends on the processor, the shape and the library's version.
#include "common/expected.h"
#include "ggml-like/cpu/float_products.h"

namespace tessera::blas {

/// Smaller products read each weight for few tokens: a library that packs its operands first is slower than a
/// kernel that streams them.
constexpr int64_t kMinTok = 32;

/// Products of kMinTok tokens and more with weights of every type, for CpuBackend. Errors as open_blas().
Result<cpu::FloatProducts> float_products();

}  // namespace tessera::blas
