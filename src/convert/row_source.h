#pragma once
// The source of tensor rows while a new file is written.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::convert {

class RowSource {
  public:
    virtual ~RowSource() = default;

    /// Rows [first, first + count) of the file's tensor `index`, in its type; all its dimensions but the last
    /// count as rows. Returns a pointer into the source or into `scratch`. Thread-safe with one scratch per
    /// thread.
    virtual const std::byte* rows(size_t index, int64_t first, int64_t count,
                                  std::vector<std::byte>& scratch) const = 0;

    /// The caller will not read these rows any more: their memory may be released.
    virtual void release(size_t index, int64_t first, int64_t count) const = 0;
};

}  // namespace tessera::convert
