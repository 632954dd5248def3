#pragma once
// Where the bytes of a file's tensors come from while a new file is written.
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::convert {

class RowSource {
  public:
    virtual ~RowSource() = default;

    /// Rows [first, first + count) of the file's tensor `index`, in its type; all its dimensions but the last
    /// count as rows. Points into the source or into `scratch`. Called by many threads at once, each with a
    /// scratch of its own.
    virtual const std::byte* rows(size_t index, int64_t first, int64_t count,
                                  std::vector<std::byte>& scratch) const = 0;

    /// These rows were read for the last time: their memory may go.
    virtual void release(size_t index, int64_t first, int64_t count) const = 0;
};

}  // namespace tessera::convert
