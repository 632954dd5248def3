#pragma once
// Which model a file holds: what things that are made for one model (saved sessions, ranges, compiled files)
// are told apart by.
#include <string_view>

#include "common/hash.h"
#include "ggml-like/gguf/file.h"

namespace tessera::gguf {

/// How much of the tensors' data counts.
enum class IdentityBytes {
    Vectors,  ///< all of what has one dimension, nothing else: the same for a packed container
    Sample,   ///< of every tensor up to kIdentitySampleBytes: all of it, or else pieces spread evenly
};
inline constexpr size_t kIdentitySampleBytes = 32768;

/// Adds the keys "ARCH.*" with their values as they are read (with the file's overrides), and of each tensor,
/// in the order of the file, its name, type, shape and data. With Sample no more than kIdentitySampleBytes of
/// a tensor are read: another training, conversion or quantization is noticed, since it changes nearly all
/// bytes; a few changed bytes in the middle of a large matrix may not be. An empty `arch` has no keys.
void add_identity(const File& file, std::string_view arch, IdentityBytes bytes, Hash64& hash);

}  // namespace tessera::gguf
