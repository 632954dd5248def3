#pragma once
// Where a token's int8 image lies among those that are multiplied together (kernels::ActView): one rule for
// whoever writes or copies it.
#include <algorithm>

#include "quants/kernels/table.h"

namespace tessera {

/// Tokens whose images lie together, as products read them: those of a batch, or the ones that an expert has.
struct ActRun {
    int64_t first, n;
};

/// A token's blocks of 32 k, counted as the blocks of rows are: its first one, and from one to the next.
struct ActPlace {
    int64_t block, step;
};

/// Tokens of the tiles of a run of n_tok tokens; 1: they lie in rows.
inline int64_t act_tile(const kernels::KernelTable& table, int64_t n_tok) {
    return n_tok < kernels::kFewestTiled ? 1 : table.act_tile;
}

/// Of token number `token`, run.first being the number of the run's first one, with n_k k each.
inline ActPlace act_place(const kernels::KernelTable& table, ActRun run, int64_t token, int64_t n_k) {
    const int64_t tile = act_tile(table, run.n), at = token - run.first, first = at & -tile;
    return {(run.first + first) * (n_k / kernels::kActBlock) + at - first, std::min(tile, run.n - first)};
}

/// A token's image from `block` on, in the five arrays that `image` has by the names of kernels::ActRow.
template <class Image>
kernels::ActRow act_row(const Image& image, int64_t block, int64_t step) {
    return {image.q + block * kernels::kActBlock,
            image.d + block,
            image.s + block,
            image.sum16 + 2 * block,
            image.sum8 + 4 * block,
            step};
}

}  // namespace tessera
