#pragma once
// A stream rewritten without copies: operands that a transfer only moves for a reader are read in place, and
// results that are only stored are computed at their destination. 4-bit weights stay packed until they are
// multiplied. The results are bit-identical to those of the stream.
#include <vector>

#include "src/npu/places.h"

namespace tessera::npu {

struct DirectInstruction {
    Instruction instruction;
    uint32_t first_redirect = 0, n_redirects = 0;
    /// For a Multiply with packed weights: number of inputs that share a multiplier, and the place of the
    /// multipliers. The redirect of its weights points to the codes.
    uint32_t block = 0;
    Redirect mult = {};
    bool is_small = false;  ///< all multipliers are in [-15, 16], as the compiler writes them
};

struct DirectStream {
    std::vector<DirectInstruction> instructions;
    std::vector<Redirect> redirects;

    std::span<const Redirect> redirects_of(const DirectInstruction& it) const {
        return std::span(redirects).subspan(it.first_redirect, it.n_redirects);
    }
};

/// Rewrites a stream that check_stream() has accepted, for runs in written order. A copy stays where it is
/// not provably redundant: operands with strides that the instruction cannot address, transfers that depend
/// on the pass, and memory that is written in between. An operand in DDR lies within the bytes its transfer
/// touched. The multipliers in `constants` are inspected, because a file may hold any values.
DirectStream direct_stream(const Stream& stream, std::span<const std::byte> constants);

}  // namespace tessera::npu
