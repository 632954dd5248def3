#pragma once
// A digest of the model in a file, by which saved sessions, ranges and compiled files are matched to it.
#include <string_view>

#include "common/hash.h"
#include "ggml-like/gguf/file.h"

namespace tessera::gguf {

/// How much of the tensors' data is included.
enum class IdentityBytes {
    Vectors,  ///< all one-dimensional tensors, nothing else: the same for a packed container
    Sample,   ///< up to kIdentitySampleBytes of every tensor: all of it, or else evenly spread pieces
};
inline constexpr size_t kIdentitySampleBytes = 32768;

/// Adds the keys "ARCH.*" with their values (including overrides), and the name, type, shape and data of each
/// tensor in the order of the file. With Sample at most kIdentitySampleBytes of a tensor are read: another
/// training, conversion or quantization changes nearly all bytes and so the digest; a few changed bytes in a
/// large matrix may go unnoticed. An empty `arch` has no keys.
void add_identity(const File& file, std::string_view arch, IdentityBytes bytes, Hash64& hash);

}  // namespace tessera::gguf
