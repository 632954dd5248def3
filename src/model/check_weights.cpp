// All threads share each tensor in work items of whole row groups, so that packed and plain tensors take the
// same path. An atomic minimum finds the first corrupt weight.
#include "src/model/check_weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "common/strings.h"

namespace tessera {

namespace {

constexpr int64_t kPiece = 4096;  // weights decoded at once; a multiple of every block

/// Index of the first weight that is infinite or NaN, or n.
int64_t first_damaged(const float* x, int64_t n) {
    const auto is_damaged = [](float v) { return (std::bit_cast<uint32_t>(v) & 0x7f800000) == 0x7f800000; };
    bool any = false;
    for (int64_t i = 0; i < n; ++i) any |= is_damaged(x[i]);
    return any ? std::find_if(x, x + n, is_damaged) - x : n;
}

class TensorCheck {
  public:
    TensorCheck(const gguf::TensorInfo& tensor, const kernels::KernelTable& kernels)
        : tensor_(tensor),
          info_(type_info(tensor.type)),
          packed_(kernels.packed[static_cast<uint32_t>(tensor.type)]),
          n_cols_(tensor.n_cols()),
          n_rows_(tensor.n_elements() / n_cols_),
          row_bytes_(static_cast<size_t>(info_.row_bytes(n_cols_))) {
        // Rows and row groups of each matrix in a stack.
        n_matrix_rows_ = tensor.layout == Layout::Packed ? tensor.shape[tensor.n_dims - 2] : n_rows_;
        n_matrix_groups_ = (n_matrix_rows_ + kernels::kGroupRows - 1) / kernels::kGroupRows;
    }

    int64_t n_groups() const { return n_rows_ / n_matrix_rows_ * n_matrix_groups_; }
    bool is_readable() const { return tensor_.layout != Layout::Packed || packed_.unpack; }
    /// Index of the first corrupt weight; n_elements if there is none.
    int64_t damaged() const { return std::min(damaged_.load(), tensor_.n_elements()); }

    /// Checks one group of rows; `rows` is scratch.
    void check(int64_t group, std::vector<std::byte>& rows) {
        const int64_t matrix = group / n_matrix_groups_;
        const int64_t row0 = group % n_matrix_groups_ * kernels::kGroupRows;
        const int64_t n = std::min<int64_t>(kernels::kGroupRows, n_matrix_rows_ - row0);
        const size_t matrix_bytes = tensor_.data.size() / static_cast<size_t>(n_rows_ / n_matrix_rows_);
        const std::byte* data = tensor_.data.data() + static_cast<size_t>(matrix) * matrix_bytes +
                                static_cast<size_t>(row0) * row_bytes_;
        if (tensor_.layout == Layout::Packed) {
            rows.resize(kernels::kGroupRows * row_bytes_);
            packed_.unpack(data, static_cast<int>(n), n_cols_, rows.data(), row_bytes_);
            data = rows.data();
        }
        const int64_t first = (matrix * n_matrix_rows_ + row0) * n_cols_, count = n * n_cols_;
        float values[kPiece];
        for (int64_t at = 0; at < count; at += kPiece) {
            const int64_t n_piece = std::min(kPiece, count - at);
            info_.dequantize(data + info_.row_bytes(at), values, n_piece);
            const int64_t found = first_damaged(values, n_piece);
            if (found == n_piece) continue;
            int64_t lowest = damaged_.load();
            while (first + at + found < lowest &&
                   !damaged_.compare_exchange_weak(lowest, first + at + found)) {
            }
            return;
        }
    }

  private:
    const gguf::TensorInfo& tensor_;
    const TypeInfo& info_;
    const kernels::PackedKernels& packed_;
    int64_t n_cols_, n_rows_, n_matrix_rows_ = 0, n_matrix_groups_ = 0;
    size_t row_bytes_;
    std::atomic<int64_t> damaged_{INT64_MAX};
};

std::string place(const gguf::TensorInfo& tensor, int64_t index) {
    std::string text;
    for (int i = tensor.n_dims - 1; i >= 0; --i) {
        text =
            strf("%lld%s", static_cast<long long>(index % tensor.shape[i]), text.empty() ? "" : ", ") + text;
        index /= tensor.shape[i];
    }
    return "[" + text + "]";
}

}  // namespace

Result<void> check_weights(const gguf::File& file, ThreadPool& pool, const kernels::KernelTable& kernels,
                           const ByteProgress& progress) {
    uint64_t done = 0, total = 0;
    for (const gguf::TensorInfo& tensor : file.tensors()) total += tensor.data.size();
    std::vector<std::vector<std::byte>> rows(static_cast<size_t>(pool.n_threads()));
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        if (progress) progress(done, total);
        done += tensor.data.size();
        if (type_info(tensor.type).role != TypeRole::Weight) continue;
        TensorCheck check(tensor, kernels);
        const std::string name = printable(tensor.name);
        if (!check.is_readable())
            return fail(ErrorCode::Unsupported,
                        "%s: tensor '%s': packed, but the instruction set '%s' has no packed kernel for its "
                        "type; unpack the file",
                        printable(file.path(), 400).c_str(), name.c_str(), kernels.name);
        pool.run(check.n_groups(),
                 [&](int64_t group, int worker) { check.check(group, rows[static_cast<size_t>(worker)]); });
        if (pool.aborted()) return fail(ErrorCode::Cancelled, "checking the weights was cancelled");
        if (const int64_t at = check.damaged(); at < tensor.n_elements())
            return fail(ErrorCode::Malformed,
                        "%s: tensor '%s': expected finite weights, found an infinite one or a NaN at %s",
                        printable(file.path(), 400).c_str(), name.c_str(), place(tensor, at).c_str());
    }
    if (progress && total > 0) progress(total, total);
    return {};
}

}  // namespace tessera
