#pragma once
// Streams of instructions: a builder that adds exactly the necessary waits, and the checks of a stream before
// it runs.
#include <map>
#include <string>

#include "common/expected.h"
#include "src/npu/instruction.h"
#include "src/npu/operands.h"

namespace tessera::npu {

/// Appends instructions to their unit's queue, with waits for earlier instructions of other units that access
/// the same bytes of VTCM. Redundant waits are omitted. DDR is accessed only by DMA, which executes in order.
class StreamBuilder {
  public:
    void add(Instruction instruction);
    /// Appends a stream that already has its waits.
    void append(const Stream& stream);

    uint32_t size() const { return static_cast<uint32_t>(stream_.size()); }
    Stream take() { return std::move(stream_); }

  private:
    /// The last accesses to a range of bytes: instruction counts of each unit.
    struct Touched {
        uint64_t end = 0;
        Progress reads = {}, writes = {};
    };
    void touch(const Access& access, size_t unit, uint32_t count, Progress& waits);
    void split(uint64_t at);

    Stream stream_;
    std::map<uint64_t, Touched> vtcm_;  // by first byte
    // Progress of all units that is guaranteed when the last instruction of a unit is done, and when each of
    // them is.
    std::array<std::vector<Progress>, kUnits> done_;
};

/// The memory that a stream may touch.
struct Bounds {
    int64_t vtcm_bytes = 0;
    int64_t span_bytes = 0;  ///< no packet's operand may cross a multiple of this; 0: no restriction
    std::array<int64_t, kRegions> region_bytes = {};
    PassBounds pass = {};
};

/// Rejects a stream with an operand out of bounds or misaligned, a wait that cannot be satisfied, or invalid
/// fields. An accepted stream runs without further checks. Malformed, naming the instruction.
Result<void> check_stream(const Stream& stream, const Bounds& bounds);

/// Finds the first two instructions that access the same bytes of VTCM or of a region, at least one writing,
/// without a wait between them. Returns a description, or an empty string if there are none. Requires a
/// checked stream; quadratic in its length.
std::string find_hazard(const Stream& stream, const PassBounds& bounds = {});

}  // namespace tessera::npu
