// The digest ties compiled models and range files to the weights they were made from.
#include "src/npu/model_digest.h"

#include "ggml-like/gguf/identity.h"

namespace tessera::npu {

uint64_t model_digest(const gguf::File& file) {
    const gguf::Value* name = file.find("general.architecture");
    const auto arch = name ? name->as_string() : std::nullopt;
    Hash64 hash;
    gguf::add_identity(file, arch.value_or(""), gguf::IdentityBytes::Sample, hash);
    return hash.value();
}

}  // namespace tessera::npu
