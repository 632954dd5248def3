#pragma once
// The memory of an instruction's operands while it runs: VTCM, or DDR for operands that are used in place
// (direct_stream.h).
#include <array>
#include <cstddef>
#include <span>

#include "src/npu/instruction.h"

namespace tessera::npu {

/// DDR by Region. Constants are read-only.
using Memory = std::array<std::span<std::byte>, kRegions>;

/// Redirects an operand at a VTCM offset to DDR, in pieces `stride` bytes apart.
struct Redirect {
    uint32_t vtcm = 0;
    Region region = Region::Constants;
    uint64_t at = 0;
    uint64_t stride = 0;
};

/// A view, owning nothing.
struct Places {
    struct Place {
        std::byte* at;
        int64_t stride;  ///< bytes from one piece to the next
    };

    std::byte* vtcm = nullptr;
    const Memory* memory = nullptr;
    std::span<const Redirect> redirects = {};  ///< of the current instruction

    Place of(const Redirect& redirect) const {
        return {(*memory)[static_cast<size_t>(redirect.region)].data() + redirect.at,
                static_cast<int64_t>(redirect.stride)};
    }
    /// The place of the operand at a VTCM offset with pieces vtcm_stride apart in VTCM.
    Place find(uint64_t offset, int64_t vtcm_stride = 0) const {
        for (const Redirect& redirect : redirects)
            if (redirect.vtcm == offset) return of(redirect);
        return {vtcm + offset, vtcm_stride};
    }
};

}  // namespace tessera::npu
