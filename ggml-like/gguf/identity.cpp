// The digest of a file's model. The order of its parts is part of the formats of saved sessions and compiled
// files: a change invalidates all of them.
#include "ggml-like/gguf/identity.h"

#include <string>

namespace tessera::gguf {

namespace {

/// Pieces of one page each, including the first and the last bytes of the data.
constexpr size_t kPieces = 8, kSamplePieceBytes = kIdentitySampleBytes / kPieces;

void add_sample(const File& file, std::span<const std::byte> data, Hash64& hash) {
    if (data.size() <= kIdentitySampleBytes) return hash.add(data);
    for (size_t i = 0; i < kPieces; ++i)
        hash.add(data.subspan((data.size() - kSamplePieceBytes) * i / (kPieces - 1), kSamplePieceBytes));
    // The system maps the surroundings of a piece with it.
    file.release(data);
}

}  // namespace

void add_identity(const File& file, std::string_view arch, IdentityBytes bytes, Hash64& hash) {
    const auto add_text = [&hash](std::string_view text) { hash.add(std::as_bytes(std::span(text))); };
    const std::string prefix = std::string(arch) + ".";
    for (const KeyValue& key : file.keys()) {
        if (arch.empty() || !key.key.starts_with(prefix)) continue;
        add_text(key.key);
        hash.add(key.value.raw());
    }
    for (const TensorInfo& tensor : file.tensors()) {
        add_text(tensor.name);
        add_text(type_info(tensor.type).name);
        add_text(tensor.shape_string());
        if (bytes == IdentityBytes::Sample)
            add_sample(file, tensor.data, hash);
        else if (tensor.n_dims == 1)
            hash.add(tensor.data);
    }
}

}  // namespace tessera::gguf
