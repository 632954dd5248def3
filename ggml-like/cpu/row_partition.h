#pragma once
// How the rows of matrices are cut into units of work. It sets speed, never results.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ggml-like/cpu/tuning.h"
#include "ggml-like/tensor.h"

namespace tessera::cpu {

/// n rows of one of several matrices, from `row` on; n = 0: none.
struct RowRange {
    int64_t matrix = 0, row = 0, n = 0;
};

/// Where the rows lie in w, or in one of its experts (`matrix`); null for no rows.
inline const std::byte* row_ptr(const Weight& w, const RowRange& rows) {
    if (rows.n == 0) return nullptr;
    return (w.n_expert > 0 ? w.expert(rows.matrix) : w).row(rows.row);
}

/// Several matrices, one after the other, each in units of unit_rows rows and a shorter last one. At:
/// at(i) is all rows of the i-th matrix, a RowRange.
template <class At>
class RowPartition {
  public:
    RowPartition(int64_t n_matrices, int64_t unit_rows, At at)
        : n_matrices_(n_matrices), unit_rows_(unit_rows), at_(at) {}

    int64_t n_units() const {
        int64_t n = 0;
        for (int64_t i = 0; i < n_matrices_; ++i) n += n_blocks(at_(i).n, unit_rows_);
        return n;
    }

    /// fn(rows, next) for the rows of units [first, end), at most max_rows of one matrix at a time; `next`
    /// are the rows that follow. max_rows is a multiple of unit_rows.
    template <class Fn>
    void each_range(int64_t first, int64_t end, int64_t max_rows, Fn&& fn) const {
        int64_t i = 0, n_left = end - first;
        for (int64_t n; n_left > 0 && first >= (n = n_blocks(at_(i).n, unit_rows_)); ++i) first -= n;
        int64_t row = first * unit_rows_;
        const auto take = [&]() -> RowRange {
            if (n_left <= 0) return {};
            const RowRange all = at_(i);
            const RowRange rows{all.matrix, all.row + row,
                                std::min({max_rows, n_left * unit_rows_, all.n - row})};
            n_left -= n_blocks(rows.n, unit_rows_);
            row += rows.n;
            if (row == all.n) ++i, row = 0;
            return rows;
        };
        for (RowRange rows = take(), next; rows.n > 0; rows = next) {
            next = take();
            fn(rows, next);
        }
    }

  private:
    int64_t n_matrices_, unit_rows_;
    At at_;
};

/// The rows of one matrix.
inline auto partition_of(int64_t n_rows) {
    return RowPartition(1, kUnitRows, [n_rows](int64_t) { return RowRange{0, 0, n_rows}; });
}

}  // namespace tessera::cpu
