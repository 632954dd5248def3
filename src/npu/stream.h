#pragma once
// Streams of instructions: how one is written with the waits it needs and no others, and what is proved of
// one before it runs.
#include <span>
#include <string>

#include "common/expected.h"
#include "src/npu/instruction.h"

namespace tessera::npu {

/// Appends instructions. A wait that follows from the others is left out.
class StreamBuilder {
  public:
    /// The place of an instruction among those of its unit, from 1 on; 0 is none.
    struct Ticket {
        Unit unit = Unit::Dma;
        uint32_t count = 0;
    };

    /// Appends it behind those of its unit; it starts when all of `after` are done.
    Ticket add(Instruction instruction, std::span<const Ticket> after);

    Stream take() { return std::move(stream_); }

  private:
    Stream stream_;
    // What is known to be done once the last instruction of a unit is, and once each of them is.
    std::array<std::vector<Progress>, kUnits> done_;
};

/// The memory that a stream may touch.
struct Bounds {
    int64_t vtcm_bytes = 0;
    int64_t span_bytes = 0;  ///< no packet's operand crosses a multiple of this; 0: no such rule
    std::array<int64_t, kRegions> region_bytes = {};
};

/// Refuses a stream with an operand out of bounds or misaligned, a wait that cannot be fulfilled, or fields
/// that make no sense. What passes can run without any further check. Malformed, naming the instruction.
Result<void> check_stream(const Stream& stream, const Bounds& bounds);

/// The first two instructions that touch the same bytes of VTCM or of a region, one of them writing, without
/// one waiting for the other, as text; empty if there are none. Reads a checked stream; quadratic in its
/// length.
std::string find_hazard(const Stream& stream);

}  // namespace tessera::npu
