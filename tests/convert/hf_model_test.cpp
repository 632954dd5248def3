// Folders with only a config.json: the keys that its numbers become, and refusals.
#include "src/convert/hf_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "quants/dispatch.h"
#include "tests/support/temp_folder.h"

namespace tessera::convert {
namespace {

Result<std::unique_ptr<HfModel>> plan(const std::string& config) {
    static const test::TempFolder folder;
    static ThreadPool pool(1);
    folder.write("config.json", config);
    const kernels::KernelTable& table = *(*kernels::choose_isa("scalar"))->table;
    return HfModel::open(folder.path(), pool, table, {.pre = "", .plan_only = true});
}

/// The config of a small model of a class, with further members.
std::string config(const std::string& name, const std::string& more, int n_layers = 4) {
    return R"({"architectures": [")" + name +
           R"("], "vocab_size": 64, "hidden_size": 64, "intermediate_size": 96,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6, "num_hidden_layers": )" +
           std::to_string(n_layers) + (more.empty() ? "" : ", " + more) + "}";
}

double number(const HfModel& model, const char* key) {
    const gguf::Value* value = model.file().find(key);
    return value ? value->as_float().value_or(-2) : -1;
}
std::string text(const HfModel& model, const char* key) {
    const gguf::Value* value = model.file().find(key);
    return value ? value->to_string(100) : "";
}

#define PLAN(name, text)          \
    const auto name = plan(text); \
    ASSERT_TRUE(name.has_value()) << name.error().message

TEST(HfModel, EveryRowOfTheTableHasAPlan) {
    for (const HfArch& arch : all_hf_architectures()) {
        const bool is_hybrid = arch.class_name.find("Hybrid") != std::string_view::npos;
        for (const bool has_experts : {false, true}) {
            const bool wants_experts = is_hybrid ? arch.applies != nullptr
                                                 : arch.arch.ends_with("moe") || arch.arch == "gpt-oss" ||
                                                       arch.class_name == "MixtralForCausalLM";
            if (has_experts != wants_experts) continue;
            const bool has_gelu = arch.arch.starts_with("gemma") || arch.arch == "starcoder2";
            const std::string more =
                R"("hidden_act": )" + std::string(has_gelu ? R"("gelu_pytorch_tanh")" : R"("silu")") +
                R"(, "use_bias": true, "norm_topk_prob": )" + (arch.arch == "qwen3moe" ? "true" : "false") +
                R"(, "sliding_window": 128, "use_sliding_window": false, "shared_intermediate_size": 96,)"
                R"("num_experts_per_tok": 2, "num_local_experts": )" +
                (has_experts ? "4" : "0");
            const auto model = plan(config(std::string(arch.class_name), more));
            ASSERT_TRUE(model.has_value()) << arch.class_name << ": " << model.error().message;
            EXPECT_EQ((*model)->file().find("general.architecture")->as_string(), arch.arch);
            EXPECT_TRUE((*model)->file().find_tensor("blk.3.attn_output.weight"));
        }
    }
}

TEST(HfModel, ClassByModelType) {
    std::string text = config("x", R"("model_type": "qwen3")");
    text.replace(text.find(R"("architectures": ["x"],)"), 23, "");
    PLAN(model, text);
    EXPECT_EQ((*model)->class_name(), "Qwen3ForCausalLM");
}

TEST(HfModel, Windows) {
    // Gemma 3: five of six unless the file says otherwise.
    PLAN(usual,
         config("Gemma3ForCausalLM",
                R"("sliding_window": 512, "rope_local_base_freq": 20000, "query_pre_attn_scalar": 32)"));
    EXPECT_EQ(number(**usual, "gemma3.attention.sliding_window"), 512);
    EXPECT_EQ(number(**usual, "gemma3.rope.freq_base_swa"), 20000);
    EXPECT_EQ(number(**usual, "gemma3.attention.sliding_window_pattern"), -1);
    EXPECT_EQ(number(**usual, "gemma3.attention.scale"), -1);
    PLAN(period,
         config("Gemma3ForCausalLM",
                R"("sliding_window": 512, "sliding_window_pattern": 2, "query_pre_attn_scalar": 64)"));
    EXPECT_EQ(number(**period, "gemma3.attention.sliding_window_pattern"), 2);
    EXPECT_EQ(number(**period, "gemma3.attention.scale"), 0.125);
    PLAN(list, config("Olmo3ForCausalLM",
                      R"("sliding_window": 64, "layer_types": ["sliding_attention", "full_attention",
                         "sliding_attention", "full_attention"])"));
    EXPECT_EQ(text(**list, "olmo2.attention.sliding_window_pattern"), "[4] true, false, true, false");
    PLAN(none, config("Olmo2ForCausalLM", ""));
    EXPECT_EQ(number(**none, "olmo2.attention.sliding_window"), -1);
    EXPECT_FALSE(plan(config("Gemma3ForCausalLM", "")).has_value());
    // EXAONE 4 has none in its small model, and says the period of the large one in letters as well.
    PLAN(small, config("Exaone4ForCausalLM", R"("sliding_window": null, "sliding_window_pattern": null)"));
    EXPECT_EQ(number(**small, "exaone4.attention.sliding_window"), -1);
    PLAN(large, config("Exaone4ForCausalLM",
                       R"("sliding_window": 64, "sliding_window_pattern": "LLLG", "layer_types":
                          ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"])"));
    EXPECT_EQ(number(**large, "exaone4.attention.sliding_window"), 64);
    EXPECT_EQ(text(**large, "exaone4.attention.sliding_window_pattern"), "");
}

TEST(HfModel, StarCoder2WithDefaults) {
    PLAN(model, config("Starcoder2ForCausalLM", ""));
    EXPECT_NEAR(number(**model, "starcoder2.attention.layer_norm_epsilon"), 1e-5, 1e-10);
    EXPECT_FALSE((*model)->file().find_tensor("output.weight"));
    EXPECT_FALSE(plan(config("Starcoder2ForCausalLM", R"("use_bias": false)")).has_value());
    EXPECT_FALSE(plan(config("Starcoder2ForCausalLM", R"("hidden_act": "silu")")).has_value());
}

TEST(HfModel, TextModelOfALargerOneWithDefaults) {
    PLAN(model, R"({"architectures": ["Gemma3ForConditionalGeneration"], "text_config": {"hidden_size": 2560,
        "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})");
    EXPECT_EQ(number(**model, "gemma3.attention.head_count"), 8);
    EXPECT_EQ(number(**model, "gemma3.attention.key_length"), 256);
    EXPECT_EQ(number(**model, "gemma3.rope.freq_base"), 1e6);
    EXPECT_EQ(number(**model, "gemma3.rope.scaling.factor"), 8);
    EXPECT_FALSE((*model)->file().find_tensor("output.weight"));
}

TEST(HfModel, Yarn) {
    constexpr const char* kFactor = "qwen2.rope.scaling.attn_factor";
    const auto scaled = [](const std::string& more) {
        return config("Qwen2ForCausalLM", R"("rope_scaling": {"type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 1024)" +
                                              more + "}");
    };
    PLAN(plain, scaled(""));
    EXPECT_EQ(text(**plain, "qwen2.rope.scaling.type"), "yarn");
    EXPECT_EQ(number(**plain, "qwen2.rope.scaling.original_context_length"), 1024);
    EXPECT_EQ(number(**plain, kFactor), -1);
    // The loader multiplies this by 1 + ln(4) / 10.
    PLAN(given, scaled(R"(, "attention_factor": 1.0)"));
    EXPECT_NEAR(number(**given, kFactor), 1 / 1.1386294361, 1e-6);
    PLAN(both, scaled(R"(, "mscale": 2.0, "mscale_all_dim": 1.0)"));
    EXPECT_NEAR(number(**both, kFactor), 1.2772588722 / 1.1386294361 / 1.1386294361, 1e-6);
    PLAN(newer, config("Qwen2ForCausalLM", R"("rope_parameters": {"rope_type": "yarn", "rope_theta": 5e5,
        "factor": 2.0, "beta_fast": 16, "original_max_position_embeddings": 1024})"));
    EXPECT_EQ(number(**newer, "qwen2.rope.freq_base"), 5e5);
    EXPECT_EQ(number(**newer, "qwen2.rope.scaling.yarn_beta_fast"), 16);
}

TEST(HfModel, LongRope) {
    const std::string more = R"("original_max_position_embeddings": 1024, "rope_scaling": {"type": "su",
        "short_factor": [1,1,1,1,1,1,1,1,1,1,1,1], "long_factor": [2,2,2,2,2,2,2,2,2,2,2,2]})";
    PLAN(model, config("Phi3ForCausalLM", R"("partial_rotary_factor": 0.75, )" + more));
    EXPECT_EQ(number(**model, "phi3.rope.dimension_count"), 24);
    EXPECT_NEAR(number(**model, "phi3.rope.scaling.attn_factor"),
                std::sqrt(1 + std::log(4.0) / std::log(1024.0)), 1e-6);
    const gguf::TensorInfo* longer = (*model)->file().find_tensor("rope_factors_long.weight");
    ASSERT_NE(longer, nullptr);
    float first = 0;
    std::memcpy(&first, longer->data.data(), sizeof first);
    EXPECT_EQ(first, 2.0f);
    const auto short_list = plan(config("Phi3ForCausalLM", more));
    ASSERT_FALSE(short_list.has_value());
    EXPECT_NE(short_list.error().message.find("expected 16 numbers, found 12"), std::string::npos)
        << short_list.error().message;
}

TEST(HfModel, GraniteWithoutRotation) {
    PLAN(model,
         config("GraniteMoeHybridForCausalLM",
                R"("num_local_experts": 0, "shared_intermediate_size": 192, "position_embedding_type": "nope",
                          "layer_types": ["attention", "attention", "attention", "attention"],
                          "embedding_multiplier": 12, "logits_scaling": 8.0)"));
    EXPECT_EQ(text(**model, "granite.rope.scaling.finetuned"), "false");
    EXPECT_EQ(number(**model, "granite.embedding_scale"), 12);
    EXPECT_EQ(number(**model, "granite.logit_scale"), 8);
    EXPECT_EQ((*model)->file().find_tensor("blk.0.ffn_up.weight")->shape[0], 192);
}

TEST(HfModel, NumbersThatCannotBe) {
    const char* const wrong[] = {
        R"("vocab_size": 4000000000)",
        R"("hidden_size": 0)",
        R"("hidden_size": 1e3)",
        R"("head_dim": 7)",
        R"("rope_theta": -1)",
        R"("rope_theta": 1e300)",
        R"("num_hidden_layers": 1000000)",
        R"("rope_scaling": 3)",
        R"("partial_rotary_factor": 2)",
        R"("rope_scaling": {"type": "yarn", "factor": 0})",
        R"("intermediate_size": [1, 2])",
        R"("rope_scaling": {"type": "yarn", "factor": 1e300})",
        R"("max_position_embeddings": true)",
        R"("tie_word_embeddings": "yes")",
    };
    for (const char* more : wrong) {
        // Equal names are refused, so the original member is removed.
        std::string text = config("LlamaForCausalLM", more);
        const std::string name = std::string(more).substr(0, std::string(more).find(':') + 1);
        const size_t first = text.find(name), last = text.rfind(name);
        if (first != last) text.erase(first, text.find_first_of(",\n", first) + 1 - first);
        EXPECT_FALSE(plan(text).has_value()) << text;
    }
}

}  // namespace
}  // namespace tessera::convert
