// From a weight matrix of any type to products of floats. Weights that are no plain floats are decoded piece
// by piece into the worker's scratch; the results of the pieces add up in y.
#include "ggml-like/blas/products.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ggml-like/blas/openblas.h"
#include "quants/pack/floats.h"

namespace tessera::blas {

namespace {

/// Columns that are decoded at once, a multiple of every block; and rows, a multiple of a packed group.
constexpr int64_t kPieceCols = 512, kPieceRows = 128;
/// Behind the decoded piece: one packed group of rows of a piece.
constexpr size_t kPieceFloats = static_cast<size_t>(kPieceCols * kPieceRows);
static_assert((kPieceFloats + kernels::kGroupRows * kPieceCols) * sizeof(float) <=
              kernels::kPackedScratchBytes);

void decode_row(Type type, const std::byte* from, int64_t n, float* to, const cpu::VecTable& vec) {
    if (type == Type::F16) return vec.f16_to_f32(reinterpret_cast<const uint16_t*>(from), to, n);
    type_info(type).dequantize(from, to, n);
}

/// Columns k .. k + n_k of n_rows rows that begin at `rows`, to [n_rows, n_k].
void decode(const Weight& w, const std::byte* rows, int64_t n_rows, int64_t k, int64_t n_k, float* to,
            const cpu::VecTable& vec) {
    const TypeInfo& info = type_info(w.type);
    const auto skipped = static_cast<size_t>(info.row_bytes(k)),
               n_bytes = static_cast<size_t>(info.row_bytes(n_k));
    if (w.layout == Layout::Rows) {
        for (int64_t r = 0; r < n_rows; ++r)
            decode_row(w.type, rows + static_cast<size_t>(r) * w.row_bytes + skipped, n_k, to + r * n_k, vec);
        return;
    }
    const kernels::UnpackFn unpack = w.type == Type::F32   ? kernels::unpack_f32
                                     : w.type == Type::F16 ? kernels::unpack_f16
                                                           : kernels::unpack_bf16;
    auto* plain = reinterpret_cast<std::byte*>(to + kPieceFloats);
    for (int64_t r = 0; r < n_rows; r += kernels::kGroupRows) {
        const int n = static_cast<int>(std::min<int64_t>(kernels::kGroupRows, n_rows - r));
        const std::byte* group = rows + static_cast<size_t>(r) * w.row_bytes + kernels::kGroupRows * skipped;
        unpack(group, n, n_k, plain, n_bytes);
        for (int i = 0; i < n; ++i)
            decode_row(w.type, plain + static_cast<size_t>(i) * n_bytes, n_k, to + (r + i) * n_k, vec);
    }
}

void multiply(const Weight& w, const kernels::MatmulArgs& args, const cpu::VecTable& vec) {
    static const OpenBlas& library = **open_blas();  // float_products() has opened it
    const auto* rows = static_cast<const std::byte*>(args.w);
    Product product{.w = nullptr,
                    .w_stride = args.n_k,
                    .n_rows = args.n_rows,
                    .n_k = args.n_k,
                    .x = args.x,
                    .x_stride = args.x_stride,
                    .n_tok = args.n_tok,
                    .y = args.y,
                    .y_stride = args.y_stride,
                    .accumulate = false};
    const bool is_aligned = reinterpret_cast<uintptr_t>(rows) % alignof(float) == 0;
    if (w.type == Type::F32 && w.layout == Layout::Rows && is_aligned) {
        product.w = reinterpret_cast<const float*>(rows);
        return library.multiply(product);
    }
    product.w = args.scratch;
    for (int64_t row = 0; row < args.n_rows; row += kPieceRows)
        for (int64_t k = 0; k < args.n_k; k += kPieceCols) {
            product.n_rows = std::min(kPieceRows, args.n_rows - row);
            product.n_k = product.w_stride = std::min(kPieceCols, args.n_k - k);
            product.x = args.x + k;
            product.y = args.y + row;
            product.accumulate = k > 0;
            decode(w, rows + static_cast<size_t>(row) * w.row_bytes, product.n_rows, k, product.n_k,
                   args.scratch, vec);
            library.multiply(product);
        }
}

}  // namespace

Result<cpu::FloatProducts> float_products() {
    if (auto library = open_blas(); !library) return tl::unexpected(std::move(library.error()));
    return cpu::FloatProducts{.min_tok = kMinTok, .multiply = multiply};
}

}  // namespace tessera::blas
