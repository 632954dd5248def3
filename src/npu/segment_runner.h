#pragma once
// What computes the segments of a model that the device takes: the emulator, or a reference in its place.
#include <cstddef>
#include <span>

#include "src/npu/graph.h"

namespace tessera::npu {

class SegmentRunner {
  public:
    virtual ~SegmentRunner() = default;

    /// The most rows of one call.
    virtual int64_t max_rows(size_t segment) const = 0;

    /// Rows [pass.n_valid, dim], row-major, of what the segment reads and writes, in its order. 1 <= n_valid
    /// <= max_rows(); n_past + n_valid within the context where the segment attends: its keys and values of
    /// positions before n_past are those of earlier calls. Anything else is a bug of the caller.
    virtual void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
                     std::span<float* const> outputs) = 0;
};

}  // namespace tessera::npu
