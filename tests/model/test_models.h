#pragma once
// The test models by name, loaded for a chosen instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "quants/dispatch.h"
#include "src/model/model.h"
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
    int64_t n_ctx = 0;             // of the sequence; 0 = the number of tokens
    bool has_made_logits = false;  // the build makes them together with the model

    std::string path() const {
        return is_made ? model_file(file) : data_file(std::string("models/") + file + ".gguf");
    }
    std::string logits_path() const {
        return has_made_logits ? std::string(TSR_BINARY_DIR) + "/test-models/" + name + ".logits"
                               : data_file(std::string("logits/") + name + ".logits");
    }
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
                                            {"exaone4", false},
                                            {"glm4", false},
                                            {"seedoss", false},
                                            {"starcoder2", false},
                                            {"longrope", false},
                                            {"longrope-long", false, "longrope", 33}};

/// Models whose layers differ in heads, head sizes, windows and kind.
inline constexpr TestModel kLayerModels[] = {{"mixed-heads", true, "mixed-heads", 0, true},
                                             {"wide-heads", true, "wide-heads", 0, true},
                                             {"local-heads", true, "local-heads", 0, true}};

/// A model of 64 layers, whose random weights magnify the errors of quantized ones.
inline constexpr TestModel kDeepModel = {"exaone4swa", false};

inline void PrintTo(const TestModel& model, std::ostream* out) { *out << model.name; }

inline std::string name_of(const testing::TestParamInfo<TestModel>& test) {
    std::string name = test.param.name;
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

inline const kernels::KernelTable& kernel_table(const char* isa = "") {
    return *(*kernels::choose_isa(isa))->table;
}

/// Whether a KV cache of this type has room for the heads of all layers.
inline bool fits_cache(const Hparams& h, Type kv_type) {
    const int block = type_info(kv_type).block;
    return std::ranges::all_of(
        h.layers, [block](const LayerSpec& l) { return l.k_dim % block == 0 && l.v_dim % block == 0; });
}

inline Result<std::shared_ptr<const Model>> load_model(const std::string& path, ThreadPool& pool,
                                                       const char* isa = "", bool pack = true,
                                                       const ArchSpec* arch = nullptr) {
    auto file = gguf::File::open(path);
    if (!file) return tl::unexpected<Error>(file.error());
    return Model::load(std::move(*file), pool, kernel_table(isa),
                       {.pack = pack, .progress = {}, .arch = arch});
}

}  // namespace tessera::test
