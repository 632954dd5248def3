// Selects and sums the hidden states of an embedding. Sessions and the scheduler compute them.
#include "src/engine/embedding.h"

#include <algorithm>
#include <cmath>

namespace tessera::engine {

Pooling model_pooling(const Model& model) {
    constexpr int64_t kMean = 1;
    const std::string key = std::string(model.arch().name) + ".pooling_type";
    const auto type = model.file().get_int_or(key, 0, 0, INT32_MAX);
    return type && *type == kMean ? Pooling::Mean : Pooling::Last;
}

void normalize(std::span<float> row) {
    double square = 0;
    for (const float x : row) square += static_cast<double>(x) * static_cast<double>(x);
    if (square == 0) return;
    const double length = std::sqrt(square);
    for (float& x : row) x = static_cast<float>(static_cast<double>(x) / length);
}

EmbeddingSum::EmbeddingSum(Pooling pooling, int64_t n_tok, int64_t n_embd)
    : sum_(static_cast<size_t>(n_embd)), next_(pooling == Pooling::Mean ? 0 : n_tok - 1) {}

void EmbeddingSum::want(int64_t first, int64_t n, int64_t row0, std::vector<int32_t>& rows) const {
    for (int64_t i = std::max(first, next_); i < first + n; ++i)
        rows.push_back(static_cast<int32_t>(row0 + i - first));
}

void EmbeddingSum::add(std::span<const float> state) {
    for (size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(state[i]);
    ++next_;
    ++n_added_;
}

void EmbeddingSum::write(std::span<float> out) const {
    for (size_t i = 0; i < sum_.size(); ++i)
        out[i] = static_cast<float>(sum_[i] / static_cast<double>(n_added_));
}

}  // namespace tessera::engine
