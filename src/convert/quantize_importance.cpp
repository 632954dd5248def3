// Converts sums to means. The file format is in imatrix_file.cpp.
#include "src/convert/quantize_importance.h"

#include "src/convert/imatrix_file.h"

namespace tessera::convert {

Result<Importance> Importance::read(const gguf::File& file) {
    TSR_TRY(const Imatrix imatrix, Imatrix::read(file));
    Importance importance;
    const std::string& path = file.path();
    importance.source_ = {
        .file = path.substr(path.rfind("/") + 1), .datasets = {}, .n_chunks = imatrix.n_chunks};
    for (const std::string& name : imatrix.datasets)
        importance.source_.datasets += (importance.source_.datasets.empty() ? "" : ",") + name;
    for (const auto& [name, entry] : imatrix.entries) {
        std::vector<float> means(entry.sums.size());
        for (size_t i = 0; i < means.size(); i++) {
            const double count = entry.counts[i / static_cast<size_t>(entry.n_in)];
            means[i] = count > 0 ? static_cast<float>(entry.sums[i] / count) : 1.0f;
        }
        importance.values_.emplace(name, std::move(means));
    }
    return importance;
}

std::span<const float> Importance::find(std::string_view tensor) const {
    const auto found = values_.find(tensor);
    return found == values_.end() ? std::span<const float>() : found->second;
}

}  // namespace tessera::convert
