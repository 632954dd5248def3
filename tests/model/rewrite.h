#pragma once
// Copies of models with other tensors.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "ggml-like/gguf/writer.h"

namespace tessera::test {

struct TensorCopy {
    std::string name;
    std::vector<int64_t> shape;
    Type type = Type::F32;
    std::vector<std::byte> data;

    int64_t n_elements() const {
        int64_t n = 1;
        for (const int64_t dim : shape) n *= dim;
        return n;
    }
    std::vector<float> values() const {
        std::vector<float> x(static_cast<size_t>(n_elements()));
        type_info(type).dequantize(data.data(), x.data(), n_elements());
        return x;
    }
    void set_values(const std::vector<float>& x, Type to) {
        type = to;
        data.resize(static_cast<size_t>(type_info(to).row_bytes(n_elements())));
        type_info(to).quantize(x.data(), nullptr, data.data(), n_elements());
    }
};

/// Writes the model with its tensors changed by `change`.
inline void rewrite(const std::string& from, const std::string& to,
                    const std::function<void(std::vector<TensorCopy>&)>& change) {
    auto file = gguf::File::open(from);
    ASSERT_TRUE(file) << file.error().message;
    gguf::Writer writer(to);
    for (const gguf::KeyValue& kv : file->keys()) writer.set_value(kv.key, kv.value);
    std::vector<TensorCopy> tensors;
    for (const gguf::TensorInfo& t : file->tensors())
        tensors.push_back(
            {std::string(t.name), {t.shape, t.shape + t.n_dims}, t.type, {t.data.begin(), t.data.end()}});
    change(tensors);
    for (const TensorCopy& t : tensors)
        writer.add_tensor(t.name, t.shape, static_cast<uint32_t>(t.type), t.data.size());
    ASSERT_TRUE(writer.begin_data());
    for (const TensorCopy& t : tensors) ASSERT_TRUE(writer.write(t.data));
    const auto done = writer.finish();
    ASSERT_TRUE(done) << done.error().message;
}

/// Converts float matrices except routers to another type.
inline void quantize_matrices(std::vector<TensorCopy>& tensors, Type type) {
    for (TensorCopy& t : tensors)
        if (t.shape.size() > 1 && t.type != Type::F32) t.set_values(t.values(), type);
}

}  // namespace tessera::test
