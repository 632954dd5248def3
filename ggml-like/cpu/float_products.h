#pragma once
// Another library's matrix products in place of the float kernels.
#include <cstdint>

#include "ggml-like/cpu/vec.h"
#include "ggml-like/tensor.h"
#include "quants/kernels/table.h"

namespace tessera::cpu {

/// Computes what a kernel of KernelTable::matmul_f32 computes, except for rounding: y[t, r] = sum_k w[r, k] *
/// x[t, k] in any order. Stateless: all workers call multiply() at the same time, each with its own
/// MatmulArgs::scratch of kernels::kPackedScratchBytes.
struct FloatProducts {
    int64_t min_tok = 0;  ///< products of fewer tokens are computed by the kernels
    /// args.w is a row of `w`, in packed layout the first of a group. `vec` converts numbers.
    void (*multiply)(const Weight& w, const kernels::MatmulArgs& args, const VecTable& vec) = nullptr;

    explicit operator bool() const { return multiply != nullptr; }
};

}  // namespace tessera::cpu
