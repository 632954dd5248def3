#pragma once
// The layout of tokens' int8 images in a batch (kernels::ActView): one rule for all code that writes or
// copies them.
#include <algorithm>

#include "quants/kernels/table.h"

namespace tessera {

/// Tokens whose images are laid out together: those of a batch, or of an expert.
struct ActRun {
    int64_t first, n;
};

/// A token's blocks of 32 k, in numbers of blocks: its first one, and the distance from one to the next.
struct ActPlace {
    int64_t block, step;
};

/// Tokens of the tiles of a run of n_tok tokens; 1: they lie in rows.
inline int64_t act_tile(const kernels::KernelTable& table, int64_t n_tok) {
    return n_tok < kernels::kFewestTiled ? 1 : table.act_tile;
}

/// The place of token number `token` with n_k k; run.first is the number of the run's first token.
inline ActPlace act_place(const kernels::KernelTable& table, ActRun run, int64_t token, int64_t n_k) {
    const int64_t tile = act_tile(table, run.n), at = token - run.first, first = at & -tile;
    return {(run.first + first) * (n_k / kernels::kActBlock) + at - first, std::min(tile, run.n - first)};
}

/// A token's image from `block` on; `image` has the five arrays under the names of kernels::ActRow.
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
