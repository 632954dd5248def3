#pragma once
// Models for the tests: the reference files, loaded with a chosen instruction set and thread count.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "quants/dispatch.h"
#include "src/engine/session.h"
#include "tests/support/data.h"

namespace tessera::test {

/// The tokens of the reference logits.
inline const std::vector<int32_t> kGoldenTokens = {1, 5,   300, 17, 42,  301, 400, 77,
                                                   3, 511, 260, 33, 280, 290, 310, 8};

/// A small model of random weights, with reference logits of kGoldenTokens.
struct TestModel {
    const char* name;     // of the logits
    bool is_made = true;  // by tests/reference/make_models.py; otherwise the file is in tests/data/models
    const char* file = name;
    int64_t n_ctx = 0;  // of the sequence; 0 = the number of tokens

    std::string path() const {
        return is_made ? model_file(file) : data_file(std::string("models/") + file + ".gguf");
    }
    std::string logits_path() const { return data_file(std::string("logits/") + name + ".logits"); }
};

inline constexpr TestModel kTestModels[] = {{"llama"},
                                            {"llama3"},
                                            {"nemo"},
                                            {"mixtral"},
                                            {"qwen2"},
                                            {"qwen3"},
                                            {"qwen3moe"},
                                            {"gemma"},
                                            {"gemma2"},
                                            {"gemma3"},
                                            {"phi3"},
                                            {"phi4mini"},
                                            {"olmo2"},
                                            {"granite"},
                                            {"smollm3"},
                                            {"gptoss"},
                                            {"qwen2moe", false},
                                            {"granitemoe", false},
                                            {"mistral3", false},
                                            {"longrope", false},
                                            {"longrope-long", false, "longrope", 33}};

inline void PrintTo(const TestModel& model, std::ostream* out) { *out << model.name; }

inline std::string name_of(const testing::TestParamInfo<TestModel>& test) {
    std::string name = test.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

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
