#pragma once
// What conversions of a file share: its tensors are read in pieces, and a piece that is done with is let go.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/expected.h"
#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "ggml-like/gguf/writer.h"

namespace tessera {

/// The read side of a conversion. Keeps references to all it is given. One thread at a time.
class InputPieces {
  public:
    static constexpr size_t kPieceBytes = size_t{8} << 20;

    /// `progress` may be empty; the total is that of all tensors of `in`.
    InputPieces(const gguf::File& in, const ThreadPool& pool, const ByteProgress& progress);

    /// After a piece of a tensor's data is read: its pages are given back and progress is told, which may set
    /// the abort flag. Errors:
    /// Cancelled, when the pool's abort flag is set.
    Result<void> done(std::span<const std::byte> piece);
    /// A tensor's data as they are, to where the writer stands.
    Result<void> copy(std::span<const std::byte> data, gguf::Writer& writer);

  private:
    const gguf::File& in_;
    const ThreadPool& pool_;
    const ByteProgress& progress_;
    uint64_t done_ = 0, total_ = 0;
};

}  // namespace tessera
