#pragma once
// The same instructions without the copies: what a transfer only brings to one that reads it is read where it
// is, and what is computed only to be stored is computed there. Weights of 4 bits stay packed until they are
// multiplied. The bits are those of the stream.
#include <vector>

#include "src/npu/places.h"

namespace tessera::npu {

struct DirectInstruction {
    Instruction instruction;
    uint32_t first_redirect = 0, n_redirects = 0;
    /// Of a Multiply whose weights are still packed: inputs that share a multiplier, and where the
    /// multipliers are. The redirect of its weights is that of the codes.
    uint32_t block = 0;
    Redirect mult = {};
    bool is_small = false;  ///< all multipliers are from -15 to 16, as a compiler writes them
};

struct DirectStream {
    std::vector<DirectInstruction> instructions;
    std::vector<Redirect> redirects;

    std::span<const Redirect> redirects_of(const DirectInstruction& it) const {
        return std::span(redirects).subspan(it.first_redirect, it.n_redirects);
    }
};

/// Of a stream that check_stream() has passed, for runs as written. What cannot be shown to be the same
/// without its copy keeps it: operands in other strides than the instruction can take, transfers that go by
/// the pass, memory that is written in between. An operand in DDR lies within what its transfer touched.
/// A file may have any multipliers: those in the constants are looked at.
DirectStream direct_stream(const Stream& stream, std::span<const std::byte> constants);

}  // namespace tessera::npu
