#pragma once
// Where the operands of an instruction are while it runs: in VTCM, or somewhere in DDR for those that are
// used without a copy (direct_stream.h).
#include <array>
#include <cstddef>
#include <span>

#include "src/npu/instruction.h"

namespace tessera::npu {

/// The memory outside, by Region. Constants are only read.
using Memory = std::array<std::span<std::byte>, kRegions>;

/// What an instruction has at this offset of VTCM is there in DDR: pieces that are `stride` bytes apart.
struct Redirect {
    uint32_t vtcm = 0;
    Region region = Region::Constants;
    uint64_t at = 0;
    uint64_t stride = 0;
};

/// A view; nothing of it is owned.
struct Places {
    struct Place {
        std::byte* at;
        int64_t stride;  ///< from one piece to the next
    };

    std::byte* vtcm = nullptr;
    const Memory* memory = nullptr;
    std::span<const Redirect> redirects = {};  ///< of the instruction at hand

    Place of(const Redirect& redirect) const {
        return {(*memory)[static_cast<size_t>(redirect.region)].data() + redirect.at,
                static_cast<int64_t>(redirect.stride)};
    }
    /// Of an operand at that offset of VTCM, whose pieces are vtcm_stride apart there.
    Place find(uint64_t offset, int64_t vtcm_stride = 0) const {
        for (const Redirect& redirect : redirects)
            if (redirect.vtcm == offset) return of(redirect);
        return {vtcm + offset, vtcm_stride};
    }
};

}  // namespace tessera::npu
