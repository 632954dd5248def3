#pragma once
// Splits a model file into several, and merges them. Data is streamed and never changed.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera::convert {

struct SplitLimits {
    uint64_t max_bytes = 0;   ///< limit of tensor data per shard, which has at least one tensor; 0: none
    int64_t max_tensors = 0;  ///< 0 = any
};

/// Called with the bytes of tensor data copied so far; false ends the copy with Cancelled.
using CopyProgress = std::function<bool(uint64_t done)>;

/// The number of tensors of each shard, in the file's order. Errors: more shards than file names can number.
Result<std::vector<size_t>> plan_split(const gguf::File& in, const SplitLimits& limits);

/// Writes PREFIX-00001-of-0000N.gguf and so on: the first with all keys, each with the keys of a split (as
/// llama.cpp's gguf-split). Returns the names. Errors, with none of them left: `in` is packed, has a file of
/// those names among its own parts, and the errors of gguf::Writer.
Result<std::vector<std::string>> split_file(const gguf::File& in, const std::string& prefix,
                                            std::span<const size_t> plan, const CopyProgress& progress);

/// Writes all tensors and keys of an opened split, or of any file, as one; without the keys of a split.
Result<void> merge_file(const gguf::File& in, const std::string& out, const CopyProgress& progress);

}  // namespace tessera::convert
