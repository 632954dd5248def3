#pragma once
// How rows of matrices are cut into units of work. It sets speed, never results.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ggml-like/cpu/tuning.h"
#include "ggml-like/tensor.h"
#include "quants/kernels/packed.h"
#include "quants/kernels/streams.h"

namespace tessera::cpu {

/// Rows of one of several matrices: n in a row, or with `apart` > 0 kernels::kPieces pieces of n, each so
/// many rows behind the one before it. None where n is 0.
struct Stretch {
    int64_t matrix = 0, row = 0, n = 0, apart = 0;

    int64_t n_pieces() const { return apart > 0 ? kernels::kPieces : 1; }
    int64_t n_rows() const { return n_pieces() * n; }
    /// fn(row, at) for the n rows of each piece, or of the first n_first, which are the stretch's from the
    /// at-th on.
    template <class Fn>
    void each_piece(int64_t n_first, Fn&& fn) const {
        for (int64_t i = 0; i < n_first; ++i) fn(row + i * apart, i * n);
    }
    template <class Fn>
    void each_piece(Fn&& fn) const {
        each_piece(n_pieces(), fn);
    }
    /// fn(part, last) for parts of at most so many rows.
    template <class Fn>
    void each_part(int64_t most, Fn&& fn) const {
        most /= n_pieces();
        for (int64_t at = 0; at < n; at += most)
            fn(Stretch{matrix, row + at, std::min(most, n - at), apart}, at + most >= n);
    }
};

/// Where rows lie in w, or in one of its experts, their matrix; null where there are none.
inline const std::byte* rows_at(const Weight& w, const Stretch& rows) {
    if (rows.n == 0) return nullptr;
    return (w.n_expert > 0 ? w.expert(rows.matrix) : w).row(rows.row);
}

/// How many rows a unit has of each piece, or in a row, and their bytes as Regions asks for them.
struct UnitSize {
    int64_t rows, bytes;
};
inline UnitSize unit_size(const Weight& w, bool in_pieces, int64_t piece_rows) {
    if (!in_pieces) return {kUnitRows, 0};
    return {piece_rows, piece_rows * static_cast<int64_t>(w.row_bytes)};
}

/// How many units of n rows are in pieces, each some rows of every quarter.
inline int64_t units_in_pieces(int64_t n, UnitSize unit) {
    if (unit.bytes == 0) return 0;
    return kernels::groups_of_stream(n / (kernels::kPieces * unit.rows), unit.bytes, kernels::kPieces);
}

/// Regions, each some rows of a matrix, whose units are counted one region behind the other.
///
/// In a row, a unit is unit.rows rows. In pieces it is so many of each quarter of its region: whoever takes
/// one unit after the other goes through four streams far apart, which is what memory gives most in, and goes
/// on in them from call to call, while a call that cuts its own rows in four starts four streams anew. What
/// such units leave of a region is one more, in a row.
template <class At>
struct Regions {
    int64_t n_regions;
    UnitSize unit;  // 0 bytes: in a row, else in pieces
    At at;          // at(i): the i-th region, a Stretch in a row

    int64_t n_units() const {
        int64_t n = 0;
        for (int64_t i = 0; i < n_regions; ++i) n += n_units(at(i).n);
        return n;
    }
    /// fn(stretch, next) for all rows of the units [first, end); `next` is the stretch behind among them.
    template <class Fn>
    void each_stretch(int64_t first, int64_t end, Fn&& fn) const {
        Units now = units(first, end);
        while (now.n > 0) {
            first += now.n;
            const Units next = units(first, end);
            fn(now.rows, next.rows);
            now = next;
        }
    }

  private:
    /// Units that follow each other, and their rows.
    struct Units {
        int64_t n = 0;
        Stretch rows;
    };

    int64_t n_units(int64_t n) const {
        const int64_t pieces = units_in_pieces(n, unit);
        if (pieces == 0) return n_blocks(n, unit.rows);
        return pieces + (n > kernels::kPieces * pieces * unit.rows ? 1 : 0);
    }
    /// What the units [first, end) begin with.
    Units units(int64_t first, int64_t end) const {
        if (first >= end) return {};
        int64_t i = 0;
        for (int64_t n; first >= (n = n_units(at(i).n)); ++i) first -= n, end -= n;
        const Stretch region = at(i);
        const int64_t pieces = units_in_pieces(region.n, unit);
        if (pieces == 0) {
            const int64_t row = first * unit.rows, n = std::min(end * unit.rows, region.n) - row;
            return {n_blocks(n, unit.rows), {region.matrix, region.row + row, n}};
        }
        // What pieces leave comes before them: a thread ends with its shortest units.
        const int64_t in_quarters = kernels::kPieces * pieces * unit.rows, rest = region.n - in_quarters;
        if (rest > 0 && first == 0) return {1, {region.matrix, region.row + in_quarters, rest}};
        if (rest > 0) first--, end--;
        const int64_t n = std::min(end, pieces) - first;
        return {n, {region.matrix, region.row + first * unit.rows, n * unit.rows, pieces * unit.rows}};
    }
};

/// The rows of one matrix.
inline auto regions_of(int64_t n_rows, UnitSize unit) {
    return Regions{1, unit, [n_rows](int64_t) { return Stretch{0, 0, n_rows}; }};
}

}  // namespace tessera::cpu
