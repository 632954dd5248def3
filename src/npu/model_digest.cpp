// What a compiled model and a file of ranges are checked against: neither is of use for other weights.
#include "src/npu/model_digest.h"

#include "common/hash.h"

namespace tessera::npu {

uint64_t model_digest(const gguf::File& file) {
    Hash64 hash;
    const auto add_text = [&hash](std::string_view text) { hash.add(std::as_bytes(std::span(text))); };
    const gguf::Value* name = file.find("general.architecture");
    const auto arch = name ? name->as_string() : std::nullopt;
    const std::string prefix = arch ? std::string(*arch) + "." : "";
    for (const gguf::KeyValue& key : file.keys()) {
        if (prefix.empty() || !key.key.starts_with(prefix)) continue;
        add_text(key.key);
        hash.add(key.value.raw());
    }
    for (const gguf::TensorInfo& tensor : file.tensors()) {
        add_text(tensor.name);
        add_text(type_info(tensor.type).name);
        add_text(tensor.shape_string());
        hash.add(tensor.data);
    }
    return hash.value();
}

}  // namespace tessera::npu
