// The table of Hugging Face's classes. To add one, add a row; a new row order is a new value of Take and a
// line in hf_recipe.cpp. Names and defaults are those of the published checkpoints and configuration files.
#include "src/convert/hf_arch.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/strings.h"

namespace tessera::convert {

namespace {

// Tensors
// -----------------------------------------------------------------------------------------------------

constexpr HfTensor kModel[] = {
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};
constexpr HfTensor kPreNorms[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
};
constexpr HfTensor kAttention[] = {
    {"attn_q.weight", "self_attn.q_proj.weight", Take::Heads},
    {"attn_k.weight", "self_attn.k_proj.weight", Take::Heads},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias", Take::Heads, "attention_bias"},
    {"attn_k.bias", "self_attn.k_proj.bias", Take::Heads, "attention_bias"},
    {"attn_v.bias", "self_attn.v_proj.bias", Take::All, "attention_bias"},
    {"attn_output.bias", "self_attn.o_proj.bias", Take::All, "attention_bias"},
};
constexpr HfTensor kHeadNorms[] = {
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
};
constexpr HfTensor kDense[] = {
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate.bias", "mlp.gate_proj.bias", Take::All, "mlp_bias"},
    {"ffn_up.bias", "mlp.up_proj.bias", Take::All, "mlp_bias"},
    {"ffn_down.bias", "mlp.down_proj.bias", Take::All, "mlp_bias"},
};
constexpr HfTensor kMixtralExperts[] = {
    {"ffn_gate_inp.weight", "block_sparse_moe.gate.weight"},
    {"ffn_gate_exps.weight", "block_sparse_moe.experts.{}.w1.weight"},
    {"ffn_up_exps.weight", "block_sparse_moe.experts.{}.w3.weight"},
    {"ffn_down_exps.weight", "block_sparse_moe.experts.{}.w2.weight"},
};
constexpr HfTensor kQwenExperts[] = {
    {"ffn_gate_inp.weight", "mlp.gate.weight"},
    {"ffn_gate_exps.weight", "mlp.experts.{}.gate_proj.weight"},
    {"ffn_up_exps.weight", "mlp.experts.{}.up_proj.weight"},
    {"ffn_down_exps.weight", "mlp.experts.{}.down_proj.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
};
// Gemma's norms multiply by 1 + w.
constexpr HfTensor kGemmaNorms[] = {
    {"output_norm.weight", "model.norm.weight", Take::PlusOne},
    {"attn_norm.weight", "input_layernorm.weight", Take::PlusOne},
    {"ffn_norm.weight", "post_attention_layernorm.weight", Take::PlusOne},
};
constexpr HfTensor kGemma2Norms[] = {
    {"output_norm.weight", "model.norm.weight", Take::PlusOne},
    {"attn_norm.weight", "input_layernorm.weight", Take::PlusOne},
    {"post_attention_norm.weight", "post_attention_layernorm.weight", Take::PlusOne},
    {"ffn_norm.weight", "pre_feedforward_layernorm.weight", Take::PlusOne},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight", Take::PlusOne},
    {"attn_q_norm.weight", "self_attn.q_norm.weight", Take::PlusOne},
    {"attn_k_norm.weight", "self_attn.k_norm.weight", Take::PlusOne},
};
constexpr HfTensor kPhi3Fused[] = {
    {"attn_qkv.weight", "self_attn.qkv_proj.weight"},
    {"ffn_up.weight", "mlp.gate_up_proj.weight"},
};
constexpr HfTensor kPostNorms[] = {
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
};
constexpr HfTensor kGraniteExperts[] = {
    {"ffn_gate_inp.weight", "block_sparse_moe.router.layer.weight"},
    {"ffn_gate_exps.weight", "block_sparse_moe.input_linear.weight", Take::FirstHalf},
    {"ffn_up_exps.weight", "block_sparse_moe.input_linear.weight", Take::SecondHalf},
    {"ffn_down_exps.weight", "block_sparse_moe.output_linear.weight"},
    {"ffn_gate_shexp.weight", "shared_mlp.input_linear.weight", Take::FirstHalf},
    {"ffn_up_shexp.weight", "shared_mlp.input_linear.weight", Take::SecondHalf},
    {"ffn_down_shexp.weight", "shared_mlp.output_linear.weight"},
};
// Granite 4 without experts calls its only feed-forward sublayer shared.
constexpr HfTensor kGraniteShared[] = {
    {"ffn_gate.weight", "shared_mlp.input_linear.weight", Take::FirstHalf},
    {"ffn_up.weight", "shared_mlp.input_linear.weight", Take::SecondHalf},
    {"ffn_down.weight", "shared_mlp.output_linear.weight"},
};
// Heads are stored with adjacent pairs.
constexpr HfTensor kGlm4[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_self_attn_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"post_ffw_norm.weight", "post_mlp_layernorm.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias", Take::All, "attention_bias"},
    {"attn_k.bias", "self_attn.k_proj.bias", Take::All, "attention_bias"},
    {"attn_output.bias", "self_attn.o_proj.bias", Take::All, "attention_out_bias"},
    {"ffn_up.weight", "mlp.gate_up_proj.weight"},
};
constexpr HfTensor kSeedOss[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_output.bias", "self_attn.o_proj.bias", Take::All, "attention_out_bias"},
};
constexpr HfTensor kStarCoder2[] = {
    {"output_norm.bias", "model.norm.bias"},
    {"attn_norm.bias", "input_layernorm.bias"},
    {"ffn_norm.bias", "post_attention_layernorm.bias"},
    {"ffn_up.weight", "mlp.c_fc.weight"},
    {"ffn_up.bias", "mlp.c_fc.bias"},
    {"ffn_down.weight", "mlp.c_proj.weight"},
    {"ffn_down.bias", "mlp.c_proj.bias"},
};
// Rows of gate and up are interleaved; blocks are MXFP4.
constexpr HfTensor kGptOss[] = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"post_attention_norm.weight", "post_attention_layernorm.weight"},
    {"attn_sinks.weight", "self_attn.sinks"},
    {"ffn_gate_inp.weight", "mlp.router.weight"},
    {"ffn_gate_inp.bias", "mlp.router.bias"},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj_blocks", Take::Even},
    {"ffn_gate_exps.weight", "mlp.experts.gate_up_proj", Take::EvenColumns},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj_blocks", Take::Odd},
    {"ffn_up_exps.weight", "mlp.experts.gate_up_proj", Take::OddColumns},
    {"ffn_down_exps.weight", "mlp.experts.down_proj_blocks"},
    {"ffn_down_exps.weight", "mlp.experts.down_proj", Take::Columns},
    {"ffn_gate_exps.bias", "mlp.experts.gate_up_proj_bias", Take::Even},
    {"ffn_up_exps.bias", "mlp.experts.gate_up_proj_bias", Take::Odd},
    {"ffn_down_exps.bias", "mlp.experts.down_proj_bias"},
};

using Groups = std::span<const HfTensor>;
constexpr Groups kLlamaTensors[] = {kModel, kPreNorms, kAttention, kDense};
constexpr Groups kMixtralTensors[] = {kModel, kPreNorms, kAttention, kMixtralExperts};
constexpr Groups kQwen2MoeTensors[] = {kModel, kPreNorms, kAttention, kQwenExperts};
constexpr Groups kQwen3Tensors[] = {kModel, kPreNorms, kAttention, kHeadNorms, kDense};
constexpr Groups kQwen3MoeTensors[] = {kModel, kPreNorms, kAttention, kHeadNorms, kQwenExperts};
constexpr Groups kGemmaTensors[] = {kGemmaNorms, kModel, kAttention, kDense};
constexpr Groups kGemma2Tensors[] = {kGemma2Norms, kModel, kAttention, kDense};
constexpr Groups kPhi3Tensors[] = {kModel, kPreNorms, kPhi3Fused, kAttention, kDense};
constexpr Groups kOlmo2Tensors[] = {kModel, kPostNorms, kAttention, kHeadNorms, kDense};
constexpr Groups kGraniteMoeTensors[] = {kModel, kPreNorms, kAttention, kGraniteExperts};
constexpr Groups kGraniteSharedTensors[] = {kModel, kPreNorms, kAttention, kGraniteShared};
constexpr Groups kGptOssTensors[] = {kModel, kAttention, kGptOss};
constexpr Groups kGlm4Tensors[] = {kModel, kGlm4, kAttention, kDense};
constexpr Groups kStarCoder2Tensors[] = {kModel, kPreNorms, kAttention, kStarCoder2};
constexpr Groups kSeedOssTensors[] = {kModel, kSeedOss, kAttention, kDense};

// Numbers
// -----------------------------------------------------------------------------------------------------

constexpr HfKey kSoftcaps[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping"},
    {"final_logit_softcapping", "final_logit_softcapping"},
};
constexpr HfKey kMultipliers[] = {
    {"embedding_multiplier", "embedding_scale"},
    {"residual_multiplier", "residual_scale"},
    {"attention_multiplier", "attention.scale"},
    {"logits_scaling", "logit_scale"},
};

// Demands
// -----------------------------------------------------------------------------------------------------

using Values = std::string_view;
constexpr Values kSiluValues[] = {"silu", "swish", ""};
constexpr Values kGeluValues[] = {"gelu_pytorch_tanh", "gelu", ""};
constexpr Values kTrue[] = {"true"}, kTrueOrUnsaid[] = {"true", ""}, kFalse[] = {"false", ""};
constexpr Values kOne[] = {"1", ""}, kFour[] = {"4", ""}, kNone[] = {"[]", ""};
constexpr Values kTanhValues[] = {"gelu_pytorch_tanh", ""};

constexpr HfDemand kSilu[] = {{"hidden_act", kSiluValues}};
constexpr HfDemand kSiluNoBias[] = {{"hidden_act", kSiluValues}, {"mlp_bias", kFalse}};
constexpr HfDemand kQwen2Demands[] = {{"hidden_act", kSiluValues}, {"use_sliding_window", kFalse}};
constexpr HfDemand kQwen2MoeDemands[] = {{"hidden_act", kSiluValues},
                                         {"use_sliding_window", kFalse},
                                         {"norm_topk_prob", kFalse},
                                         {"decoder_sparse_step", kOne},
                                         {"mlp_only_layers", kNone}};
constexpr HfDemand kQwen3MoeDemands[] = {{"hidden_act", kSiluValues},
                                         {"use_sliding_window", kFalse},
                                         {"norm_topk_prob", kTrue},
                                         {"decoder_sparse_step", kOne},
                                         {"mlp_only_layers", kNone}};
// Gemma's first configuration files say "gelu" for the tanh approximation.
constexpr HfDemand kGemmaDemands[] = {{"hidden_act", kGeluValues}, {"hidden_activation", kTanhValues}};
constexpr HfDemand kSmolLm3Demands[] = {
    {"hidden_act", kSiluValues}, {"use_sliding_window", kFalse}, {"no_rope_layer_interval", kFour}};
constexpr HfDemand kStarCoder2Demands[] = {{"hidden_act", kTanhValues}, {"use_bias", kTrueOrUnsaid}};

// Defaults of the published configuration classes that files omit.
constexpr HfDefault kStarCoder2Defaults[] = {{"tie_word_embeddings", "true"}, {"norm_epsilon", "1e-5"}};
constexpr HfDefault kGemma3Defaults[] = {
    {"num_attention_heads", "8"},
    {"num_key_value_heads", "4"},
    {"head_dim", "256"},
    {"vocab_size", "262208"},
    {"rms_norm_eps", "1e-6"},
    {"rope_theta", "1000000"},
    {"tie_word_embeddings", "true"},
    {"max_position_embeddings", "131072"},
};
constexpr HfDefault kGemmaDefaults[] = {{"tie_word_embeddings", "true"}, {"rms_norm_eps", "1e-6"}};
constexpr HfDefault kQwen2Defaults[] = {{"attention_bias", "true"}};

bool has_experts(const HfConfig& config) {
    const auto n = config.integer_or("num_local_experts", 0, 0, 1 << 20);
    return n && *n > 0;
}

constexpr HfArch kRows[] = {
    {"LlamaForCausalLM", "llama", "llama", kLlamaTensors, {}, kSilu},
    {"MistralForCausalLM", "mistral", "llama", kLlamaTensors, {}, kSilu},
    {"MixtralForCausalLM", "mixtral", "llama", kMixtralTensors, {}, kSilu},
    {"Mistral3ForConditionalGeneration", "mistral3", "mistral3", kLlamaTensors, {}, kSilu},
    {"Ministral3ForCausalLM", "ministral3", "mistral3", kLlamaTensors, {}, kSilu},
    {"SmolLM3ForCausalLM", "smollm3", "smollm3", kLlamaTensors, {}, kSmolLm3Demands},
    {"Qwen2ForCausalLM", "qwen2", "qwen2", kLlamaTensors, {}, kQwen2Demands, kQwen2Defaults},
    {"Qwen2MoeForCausalLM", "qwen2_moe", "qwen2moe", kQwen2MoeTensors, {}, kQwen2MoeDemands, kQwen2Defaults},
    {"Qwen3ForCausalLM", "qwen3", "qwen3", kQwen3Tensors, {}, kQwen2Demands},
    {"Qwen3MoeForCausalLM", "qwen3_moe", "qwen3moe", kQwen3MoeTensors, {}, kQwen3MoeDemands},
    {"GemmaForCausalLM", "gemma", "gemma", kGemmaTensors, {}, kGemmaDemands, kGemmaDefaults},
    {"Gemma2ForCausalLM", "gemma2", "gemma2", kGemma2Tensors, kSoftcaps, kGemmaDemands, kGemmaDefaults},
    {"Gemma3ForCausalLM", "gemma3_text", "gemma3", kGemma2Tensors, kSoftcaps, kGemmaDemands, kGemma3Defaults},
    {"Gemma3ForConditionalGeneration", "gemma3", "gemma3", kGemma2Tensors, kSoftcaps, kGemmaDemands,
     kGemma3Defaults},
    {"Phi3ForCausalLM", "phi3", "phi3", kPhi3Tensors, {}, kSiluNoBias},
    {"Olmo2ForCausalLM",
     "olmo2",
     "olmo2",
     kOlmo2Tensors,
     {},
     kSiluNoBias,
     {},
     "intermediate_size",
     nullptr,
     false},
    {"Olmo3ForCausalLM", "olmo3", "olmo2", kOlmo2Tensors, {}, kSiluNoBias},
    {"GraniteForCausalLM", "granite", "granite", kLlamaTensors, kMultipliers, kSilu},
    {"GraniteMoeForCausalLM", "granitemoe", "granitemoe", kGraniteMoeTensors, kMultipliers, kSilu},
    {"GraniteMoeSharedForCausalLM", "granitemoeshared", "granitemoe", kGraniteMoeTensors, kMultipliers,
     kSilu},
    {"GraniteMoeHybridForCausalLM",
     "granitemoehybrid",
     "granitemoe",
     kGraniteMoeTensors,
     kMultipliers,
     kSilu,
     {},
     "intermediate_size",
     has_experts},
    {"GraniteMoeHybridForCausalLM",
     "granitemoehybrid",
     "granite",
     kGraniteSharedTensors,
     kMultipliers,
     kSilu,
     {},
     "shared_intermediate_size"},
    {"GptOssForCausalLM", "gpt_oss", "gpt-oss", kGptOssTensors, {}, kSilu},
    {"Exaone4ForCausalLM", "exaone4", "exaone4", kOlmo2Tensors, {}, kSilu},
    {"Glm4ForCausalLM", "glm4", "glm4", kGlm4Tensors, {}, kSilu},
    {"Starcoder2ForCausalLM",
     "starcoder2",
     "starcoder2",
     kStarCoder2Tensors,
     {},
     kStarCoder2Demands,
     kStarCoder2Defaults},
    {"SeedOssForCausalLM", "seed_oss", "seed_oss", kSeedOssTensors, {}, kSiluNoBias},
};

/// A value as written in the rows: scalars as in JSON without quotes, an empty list as "[]", everything else
/// as "...".
std::string spelled(const JsonValue& value) {
    switch (value.kind) {
        case JsonValue::Kind::Boolean:
            return value.boolean ? "true" : "false";
        case JsonValue::Kind::Number:
        case JsonValue::Kind::String:
            return value.text;
        case JsonValue::Kind::Array:
            return value.items.empty() ? "[]" : "a list";
        default:
            return json_kind_name(value.kind);
    }
}

}  // namespace

std::span<const HfArch> all_hf_architectures() { return kRows; }

Result<const HfArch*> find_hf_architecture(const HfConfig& config) {
    const std::string name = config.class_name();
    TSR_TRY(const std::string type, config.text_or("model_type", ""));
    std::string list;
    for (const HfArch& row : kRows) {
        const bool is_it = name.empty() ? row.model_type == type : row.class_name == name;
        if (is_it && (!row.applies || row.applies(config))) return &row;
        if (list.find(row.class_name) == list.npos)
            list += (list.empty() ? "" : ", ") + std::string(row.class_name);
    }
    return fail(ErrorCode::Unsupported, "config.json: architecture '%s' is not supported (supported: %s)",
                printable(name.empty() ? type : name).c_str(), list.c_str());
}

Result<void> check_demands(const HfArch& arch, const HfConfig& config) {
    for (const HfDemand& demand : arch.demands) {
        const JsonValue* value = config.find(demand.key);
        const std::string found = value ? spelled(*value) : "";
        if (std::find(demand.values.begin(), demand.values.end(), found) != demand.values.end()) continue;
        return fail(ErrorCode::Unsupported, "config.json: '%s': architecture '%s' supports only %s, found %s",
                    std::string(demand.key).c_str(), std::string(arch.arch).c_str(),
                    std::string(demand.values[0]).c_str(), value ? printable(found).c_str() : "none");
    }
    return {};
}

}  // namespace tessera::convert
