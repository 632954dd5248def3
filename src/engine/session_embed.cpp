// Embeddings: a pass that stops before the logits. Sums run in double over tokens in their order, so that how
// a text is cut into passes does not change a bit.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "src/engine/session.h"

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

Result<void> Session::embed(std::span<const int32_t> tokens, Pooling pooling, std::span<float> out) {
    const auto n_embd = static_cast<size_t>(model_->hparams().n_embd);
    if (out.size() < n_embd)
        return fail(ErrorCode::InvalidArgument, "embedding: expected room for %zu floats, found %zu", n_embd,
                    out.size());
    truncate(0);
    TSR_TRY_VOID(check(tokens));
    const auto n_batch = static_cast<size_t>(activations_.max_tok);
    hidden_.resize(n_batch * n_embd);
    Act hidden{.name = "hidden", .dim = static_cast<int64_t>(n_embd)};
    hidden.f32 = hidden_.data();
    std::vector<double> sum(n_embd);
    Result<void> done;
    for (size_t at = 0; at < tokens.size() && done; at += n_batch) {
        const auto part = tokens.subspan(at, std::min(n_batch, tokens.size() - at));
        outputs_.resize(pooling == Pooling::Mean ? part.size() : 0);
        std::iota(outputs_.begin(), outputs_.end(), 0);
        const bool is_last = at + part.size() == tokens.size();
        if (pooling == Pooling::Last && is_last) outputs_.push_back(static_cast<int32_t>(part.size() - 1));
        done = step(part, outputs_, &hidden);
        for (size_t row = 0; row < outputs_.size() && done; ++row)
            for (size_t i = 0; i < n_embd; ++i) sum[i] += static_cast<double>(hidden_[row * n_embd + i]);
    }
    truncate(0);
    TSR_TRY_VOID(done);
    const double n = pooling == Pooling::Mean ? static_cast<double>(tokens.size()) : 1;
    for (size_t i = 0; i < n_embd; ++i) out[i] = static_cast<float>(sum[i] / n);
    return {};
}

}  // namespace tessera::engine
