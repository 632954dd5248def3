#pragma once
// Logits of the test models, and their distance from reference logits.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "src/engine/session.h"
#include "tests/model/test_models.h"

namespace tessera::test {

/// Logits of a file of int32 n_tok, int32 n_vocab and [n_tok, n_vocab] floats; empty if the file is
/// malformed.
inline std::vector<float> logits_of_file(const std::string& path) {
    const std::string bytes = read_file(path);
    int32_t shape[2] = {};
    if (bytes.size() < sizeof shape) return {};
    std::memcpy(shape, bytes.data(), sizeof shape);
    std::vector<float> logits(static_cast<size_t>(shape[0]) * static_cast<size_t>(shape[1]));
    if (bytes.size() != sizeof shape + logits.size() * sizeof(float)) return {};
    std::memcpy(logits.data(), bytes.data() + sizeof shape, logits.size() * sizeof(float));
    return logits;
}
/// Logits of every token, [tokens.size(), n_vocab], computed in passes of `chunk` tokens.
inline std::vector<float> all_logits(const std::shared_ptr<const Model>& model, ThreadPool& pool,
                                     const std::vector<int32_t>& tokens, int64_t chunk,
                                     Type kv_type = Type::F32, int64_t n_ctx = 0) {
    engine::SessionOptions options;
    options.n_ctx = n_ctx > 0 ? n_ctx : static_cast<int64_t>(tokens.size());
    options.n_batch = chunk;
    options.max_out = chunk;
    options.k_type = options.v_type = kv_type;
    auto session = engine::Session::create(model, pool, options);
    if (!session) {
        ADD_FAILURE() << session.error().message;
        return {};
    }
    std::vector<float> logits;
    const auto n_vocab = model->hparams().n_vocab;
    auto done = (*session)->eval_all(tokens, [&](int64_t, int64_t n, const float* rows) {
        logits.insert(logits.end(), rows, rows + n * n_vocab);
        return true;
    });
    if (!done) ADD_FAILURE() << done.error().message;
    return logits;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// sum (a - b)^2 / sum b^2.
inline double nmse(const std::vector<float>& a, const float* b) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
        const double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
        error += d * d;
        norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
    }
    return error / norm;
}

}  // namespace tessera::test
