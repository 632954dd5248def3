#pragma once
// Differences of two model files: keys, tensors, and the error between their weights; and digests of one
// file.
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "src/convert/quantize_file.h"

namespace tessera::convert {

/// A key or tensor of either file; null if the file has none. Valid as long as both Files.
struct KeyDifference {
    std::string_view key;
    const gguf::Value *a = nullptr, *b = nullptr;
};
struct TensorDifference {
    std::string_view name;
    const gguf::TensorInfo *a = nullptr, *b = nullptr;
    bool same_bytes = false;   ///< type, shape and data
    bool is_measured = false;  ///< shapes are equal, and `error` is that of b relative to a
    TensorError error = {};
};
struct FileDifference {
    std::vector<KeyDifference> keys;  ///< keys that differ: in the order of a, then those that only b has
    std::vector<TensorDifference> tensors;  ///< all tensors: in the order of a, then those that only b has
    int64_t n_same_keys = 0;

    bool is_none() const;
};

/// Decodes and compares on `pool`, whose abort flag ends it with Cancelled. Errors: a packed container.
/// `progress` gets the bytes of `a` done and in total, and may be empty.
Result<FileDifference> compare_files(const gguf::File& a, const gguf::File& b, ThreadPool& pool,
                                     const ByteProgress& progress);

/// Digests (common/digest.h) as hexadecimal text.
struct Digests {
    std::string sha256, xxh64;
};
struct FileDigests {
    Digests all;                   ///< of the concatenated data of all tensors in the file's order
    std::vector<Digests> tensors;  ///< of each tensor's stored data
};
/// Reads the data twice. Errors: Cancelled by the pool's abort flag.
Result<FileDigests> digest_file(const gguf::File& file, ThreadPool& pool, const ByteProgress& progress = {});

}  // namespace tessera::convert
