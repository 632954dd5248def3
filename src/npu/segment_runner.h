#pragma once
// Interface of the classes that compute a model's device segments: the emulator, or a reference in its place.
#include <cstddef>
#include <span>

#include "src/npu/graph.h"

namespace tessera::npu {

class SegmentRunner {
  public:
    virtual ~SegmentRunner() = default;

    /// The maximum number of rows of one call.
    virtual int64_t max_rows(size_t segment) const = 0;

    /// Inputs and outputs are rows [pass.n_valid, dim], row-major, in the segment's order. Requires 1 <=
    /// n_valid <= max_rows() and, if the segment has attention, n_past + n_valid within its context; keys and
    /// values of positions before n_past are those of earlier calls. Violations are bugs of the caller.
    virtual void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
                     std::span<float* const> outputs) = 0;
};

}  // namespace tessera::npu
