#pragma once
// What tells two model files apart: keys, tensors, and how far their weights are from each other; and the
// digests of one.
#include <string>
#include <vector>

#include "common/progress.h"
#include "common/threads.h"
#include "ggml-like/gguf/file.h"
#include "src/convert/quantize_file.h"

namespace tessera::convert {

/// A key or tensor of either file; null where the file has none. Valid while both Files live.
struct KeyDifference {
    std::string_view key;
    const gguf::Value *a = nullptr, *b = nullptr;
};
struct TensorDifference {
    std::string_view name;
    const gguf::TensorInfo *a = nullptr, *b = nullptr;
    bool same_bytes = false;   ///< type, shape and data
    bool is_measured = false;  ///< of equal shapes: `error` is that of b against a
    TensorError error = {};
};
struct FileDifference {
    std::vector<KeyDifference> keys;        ///< that differ, the keys of a first
    std::vector<TensorDifference> tensors;  ///< all, those of a first
    int64_t n_same_keys = 0;

    bool is_none() const;
};

/// Decodes and compares on `pool`, whose abort flag ends it with Cancelled. Errors: a packed container.
/// `progress` gets bytes of a done and in all, and may be empty.
Result<FileDifference> compare_files(const gguf::File& a, const gguf::File& b, ThreadPool& pool,
                                     const ByteProgress& progress);

/// Digests (common/digest.h) as hexadecimal text.
struct Digests {
    std::string sha256, xxh64;
};
struct FileDigests {
    Digests all;                   ///< of the data of all tensors, one after the other in the file's order
    std::vector<Digests> tensors;  ///< of each one's data, as stored
};
/// Reads the data twice. Errors: Cancelled by the pool's abort flag.
Result<FileDigests> digest_file(const gguf::File& file, ThreadPool& pool);

}  // namespace tessera::convert
