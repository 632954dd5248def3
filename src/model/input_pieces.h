#pragma once
// The input side shared by conversions: tensors are read in chunks, and the pages of a finished chunk are
// released.
#include <cstddef>
#include <cstdint>
#include <span>

#include "common/expected.h"
#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "ggml-like/gguf/writer.h"

namespace tessera {

/// Input of a conversion. Keeps references to its arguments. One thread at a time.
class InputPieces {
  public:
    static constexpr size_t kPieceBytes = size_t{8} << 20;

    /// `progress` may be empty; its total is the size of all tensors of `in`.
    InputPieces(const gguf::File& in, const ThreadPool& pool, const ByteProgress& progress);

    /// Marks a chunk of a tensor's data as finished: releases its pages and reports progress, whose callback
    /// may set the abort flag. Errors: Cancelled if the pool's abort flag is set.
    Result<void> done(std::span<const std::byte> piece);
    /// Copies a tensor's data to the writer's current position.
    Result<void> copy(std::span<const std::byte> data, gguf::Writer& writer);

  private:
    const gguf::File& in_;
    const ThreadPool& pool_;
    const ByteProgress& progress_;
    uint64_t done_ = 0, total_ = 0;
};

}  // namespace tessera
