// Reads importance matrices in the layout of llama.cpp's GGUF files. Collecting them is not done here.
#include "src/convert/quantize_importance.h"

#include <cmath>
#include <cstring>

#include "common/strings.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";

Result<std::vector<float>> read_floats(const gguf::File& file, const gguf::TensorInfo& tensor) {
    const std::string at = printable(file.path(), 400) + ": tensor '" + printable(tensor.name) + "'";
    if (tensor.type != Type::F32)
        return fail(ErrorCode::Malformed, "%s: expected type f32, found %s", at.c_str(),
                    std::string(type_info(tensor.type).name).c_str());
    std::vector<float> values(static_cast<size_t>(tensor.n_elements()));
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    for (const float value : values)
        if (!std::isfinite(value) || value < 0)
            return fail(ErrorCode::Malformed, "%s: expected numbers from 0 on, found %g", at.c_str(),
                        static_cast<double>(value));
    return values;
}

}  // namespace

Result<Importance> Importance::read(const gguf::File& file) {
    Importance importance;
    const std::string path = printable(file.path(), 400);
    for (const gguf::TensorInfo& sums : file.tensors()) {
        if (!sums.name.ends_with(kSums)) continue;
        const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
        const gguf::TensorInfo* counts = file.find_tensor(name + std::string(kCounts));
        if (!counts)
            return fail(ErrorCode::Malformed, "%s: tensor '%s' is missing beside '%s'", path.c_str(),
                        printable(name + std::string(kCounts)).c_str(), printable(sums.name).c_str());
        const int64_t n_in = sums.n_cols(), n_expert = sums.n_elements() / n_in;
        if (counts->n_elements() != n_expert)
            return fail(ErrorCode::Malformed,
                        "%s: tensor '%s': expected %lld counts as '%s' has rows, found %lld", path.c_str(),
                        printable(counts->name).c_str(), static_cast<long long>(n_expert),
                        printable(sums.name).c_str(), static_cast<long long>(counts->n_elements()));
        TSR_TRY(std::vector<float> values, read_floats(file, sums));
        TSR_TRY(const std::vector<float> n_rows, read_floats(file, *counts));
        for (size_t i = 0; i < values.size(); i++) {
            const float count = n_rows[i / static_cast<size_t>(n_in)];
            values[i] = count > 0 ? values[i] / count : 1.0f;
        }
        importance.values_.emplace(name, std::move(values));
    }
    if (importance.values_.empty())
        return fail(ErrorCode::InvalidArgument,
                    "%s: expected an importance matrix (tensors NAME.in_sum2), found none", path.c_str());
    return importance;
}

std::span<const float> Importance::find(std::string_view tensor) const {
    const auto found = values_.find(tensor);
    return found == values_.end() ? std::span<const float>() : found->second;
}

}  // namespace tessera::convert
