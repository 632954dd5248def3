#pragma once
// Streams of instructions: how one is written with the waits it needs and no others, and what is proved of
// one before it runs.
#include <map>
#include <string>

#include "common/expected.h"
#include "src/npu/instruction.h"
#include "src/npu/operands.h"

namespace tessera::npu {

/// Appends instructions, each behind those of its unit, with waits for whoever of the other units touched the
/// same bytes of VTCM before. A wait that follows from others is left out. What is outside only DMA touches,
/// in its order.
class StreamBuilder {
  public:
    void add(Instruction instruction);
    /// With waits of its own.
    void append(const Stream& stream);

    uint32_t size() const { return static_cast<uint32_t>(stream_.size()); }
    Stream take() { return std::move(stream_); }

  private:
    /// Who touched bytes last: the counts of each unit's instructions.
    struct Touched {
        uint64_t end = 0;
        Progress reads = {}, writes = {};
    };
    void touch(const Access& access, size_t unit, uint32_t count, Progress& waits);
    void split(uint64_t at);

    Stream stream_;
    std::map<uint64_t, Touched> vtcm_;  // by the first byte
    // What is known to be done once the last instruction of a unit is, and once each of them is.
    std::array<std::vector<Progress>, kUnits> done_;
};

/// The memory that a stream may touch.
struct Bounds {
    int64_t vtcm_bytes = 0;
    int64_t span_bytes = 0;  ///< no packet's operand crosses a multiple of this; 0: no such rule
    std::array<int64_t, kRegions> region_bytes = {};
    PassBounds pass = {};
};

/// Refuses a stream with an operand out of bounds or misaligned, a wait that cannot be fulfilled, or fields
/// that make no sense. What passes can run without any further check. Malformed, naming the instruction.
Result<void> check_stream(const Stream& stream, const Bounds& bounds);

/// The first two instructions that touch the same bytes of VTCM or of a region, one of them writing, without
/// one waiting for the other, as text; empty if there are none. Reads a checked stream; quadratic in its
/// length.
std::string find_hazard(const Stream& stream, const PassBounds& bounds = {});

}  // namespace tessera::npu
