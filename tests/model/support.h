#pragma once
// Models for the tests: the reference files, loaded with a chosen instruction set and thread count.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "quants/dispatch.h"
#include "src/engine/session.h"
#include "tests/support/shared.h"

namespace tessera::test {

/// The tokens of the reference logits (golden/README.md).
inline const std::vector<int32_t> kGoldenTokens = {1, 5,   300, 17, 42,  301, 400, 77,
                                                   3, 511, 260, 33, 280, 290, 310, 8};

inline const kernels::KernelTable& kernel_table(const char* isa = "") {
    return *(*kernels::choose_isa(isa))->table;
}

inline Result<std::shared_ptr<const Model>> load_model(const std::string& path, ThreadPool& pool,
                                                       const char* isa = "", bool pack = true) {
    auto file = gguf::File::open(path);
    if (!file) return tl::unexpected<Error>(file.error());
    return Model::load(std::move(*file), pool, kernel_table(isa), {.pack = pack, .progress = {}});
}

/// Logits of every token, [tokens.size(), n_vocab], computed in passes of `chunk` tokens.
inline std::vector<float> all_logits(const std::shared_ptr<const Model>& model, ThreadPool& pool,
                                     const std::vector<int32_t>& tokens, int64_t chunk,
                                     Type kv_type = Type::F32) {
    engine::SessionOptions options;
    options.n_ctx = static_cast<int64_t>(tokens.size());
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
