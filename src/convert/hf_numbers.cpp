// Hyperparameters. Hparams::load() checks their ranges as for any file; here they only have to be numbers.
// Sources of the RoPE scalings: the configuration classes of the published models, YaRN (arXiv 2309.00071),
// LongRoPE (arXiv 2402.13753).
#include "src/convert/hf_numbers.h"

#include <algorithm>
#include <cmath>

#include "common/exact_math.h"
#include "common/log.h"
#include "common/strings.h"

namespace tessera::convert {

namespace {

/// Whether the checkpoint has other rows of queries and keys where adjacent pairs rotate (Take::Heads).
bool permutes_heads(const HfArch& arch) {
    for (const auto& group : arch.tensors)
        for (const HfTensor& tensor : group)
            if (tensor.gguf == "attn_q.weight") return tensor.take == Take::Heads;
    return false;
}

constexpr int64_t kMost = int64_t{1} << 31;
// Limits of sizes: far beyond published models, and such that no product overflows.
constexpr int64_t kMaxVocab = 1 << 21, kMaxEmbd = 1 << 17, kMaxLayers = 1 << 10, kMaxFf = 1 << 20;
constexpr int64_t kMaxHeads = 1 << 12, kMaxHeadDim = 1 << 10, kMaxExperts = 1 << 12;
constexpr double kMaxReal = 1e12;

class Numbers {
  public:
    Numbers(const HfArch& arch, const ArchSpec& spec, const HfConfig& config, gguf::Writer& writer)
        : arch_(arch), spec_(spec), config_(config), writer_(writer), prefix_(std::string(arch.arch) + ".") {}

    Result<HfNumbers> read();

  private:
    void put(std::string_view key, int64_t value) {
        writer_.set_int(prefix_ + std::string(key), gguf::ValueType::U32, value);
    }
    void put(std::string_view key, double value) { writer_.set_float(prefix_ + std::string(key), value); }
    Result<void> sizes();
    Result<void> experts();
    Result<void> attention();
    Result<void> windows();
    Result<void> rope();
    Result<void> scaling(const std::string& type);
    Result<void> yarn(double factor);
    Result<void> divide_by_wavelength(double factor);
    Result<void> longrope();
    const JsonValue* rope_value(std::string_view key) const;
    Result<double> rope_real(std::string_view key) const;
    Result<double> rope_real_or(std::string_view key, double other) const;
    Result<double> original_context() const;
    Result<std::vector<float>> factors(std::string_view key) const;

    const HfArch& arch_;
    const ArchSpec& spec_;
    const HfConfig& config_;
    gguf::Writer& writer_;
    const std::string prefix_;
    HfNumbers out_;
    const JsonValue* rope_ = nullptr;  // rope_scaling, or rope_parameters in newer files
    int64_t context_ = 0;
    double base_ = 0;  // base of the RoPE frequencies
};

Result<void> Numbers::sizes() {
    Hparams& h = out_.sizes;
    TSR_TRY(h.n_vocab, config_.integer("vocab_size", 1, kMaxVocab));
    TSR_TRY(context_, config_.integer("max_position_embeddings", 1, kMost));
    TSR_TRY(h.n_embd, config_.integer("hidden_size", 1, kMaxEmbd));
    TSR_TRY(h.n_layer, config_.integer("num_hidden_layers", 1, kMaxLayers));
    LayerSpec layer;
    TSR_TRY(layer.n_ff, config_.integer(arch_.ff_key, 1, kMaxFf));
    TSR_TRY(layer.n_head, config_.integer("num_attention_heads", 1, kMaxHeads));
    TSR_TRY(layer.n_head_kv, config_.integer_or("num_key_value_heads", layer.n_head, 1, kMaxHeads));
    TSR_TRY(layer.k_dim, config_.integer_or("head_dim", h.n_embd / layer.n_head, 1, kMaxHeadDim));
    layer.v_dim = layer.k_dim;
    h.layers.assign(static_cast<size_t>(h.n_layer), layer);
    put("vocab_size", h.n_vocab);
    put("context_length", context_);
    put("embedding_length", h.n_embd);
    put("block_count", h.n_layer);
    put("feed_forward_length", layer.n_ff);
    put("attention.head_count", layer.n_head);
    put("attention.head_count_kv", layer.n_head_kv);
    put("attention.key_length", layer.k_dim);
    put("attention.value_length", layer.v_dim);
    TSR_TRY(const double eps, config_.real_or(spec_.layer_norm ? "norm_epsilon" : "rms_norm_eps", 1e-6));
    put(spec_.norm_eps_key(), eps);
    for (const HfKey& key : arch_.keys) {
        if (!config_.has(key.hf)) continue;
        if (key.is_integer) {
            TSR_TRY(const int64_t value, config_.integer(key.hf, 0, kMost));
            put(key.gguf, value);
        } else {
            TSR_TRY(const double value, config_.real(key.hf));
            put(key.gguf, value);
        }
    }
    return {};
}

Result<void> Numbers::experts() {
    MoeHparams& moe = out_.sizes.moe;
    const char* count = config_.has("num_experts") ? "num_experts" : "num_local_experts";
    TSR_TRY(moe.n_expert, config_.integer_or(count, 0, 0, kMaxExperts));
    if (moe.n_expert == 0) return {};
    TSR_TRY(moe.n_used, config_.integer("num_experts_per_tok", 1, kMost));
    LayerSpec layer = out_.sizes.layers.front();
    layer.ffn = FfnKind::Moe;
    TSR_TRY(layer.n_ff, config_.integer_or("moe_intermediate_size", layer.n_ff, 1, kMaxFf));
    const char* shared = config_.has("shared_intermediate_size") ? "shared_intermediate_size"
                                                                 : "shared_expert_intermediate_size";
    TSR_TRY(layer.n_ff_shared, config_.integer_or(shared, 0, 0, kMaxFf));
    put("expert_count", moe.n_expert);
    put("expert_used_count", moe.n_used);
    put("expert_feed_forward_length", layer.n_ff);
    if (layer.n_ff_shared > 0) put("expert_shared_feed_forward_length", layer.n_ff_shared);
    std::ranges::fill(out_.sizes.layers, layer);
    return {};
}

Result<void> Numbers::attention() {
    const int64_t k_dim = out_.sizes.layers.front().k_dim;
    if (config_.has("query_pre_attn_scalar")) {
        TSR_TRY(const double scalar, config_.real("query_pre_attn_scalar"));
        if (!(scalar > 0))
            return fail(ErrorCode::Malformed,
                        "config.json: 'query_pre_attn_scalar': expected a number above 0, found %g", scalar);
        if (scalar != static_cast<double>(k_dim)) put("attention.scale", 1 / std::sqrt(scalar));
    }
    if (spec_.no_rope_period > 0) {
        // Booleans: whether a layer uses RoPE.
        const JsonValue* list = config_.find("no_rope_layers");
        for (size_t i = 0; list && i < list->items.size(); i++) {
            const bool rotates = list->items[i].text != "0";
            if (rotates == (static_cast<int64_t>(i + 1) % spec_.no_rope_period == 0))
                return fail(ErrorCode::Unsupported,
                            "config.json: 'no_rope_layers': expected no RoPE in every %lldth layer, found "
                            "another rule at layer %zu",
                            static_cast<long long>(spec_.no_rope_period), i);
        }
    }
    return windows();
}

Result<void> Numbers::windows() {
    const JsonValue* types = config_.find("layer_types");
    const char* key = config_.has("sliding_window") ? "sliding_window" : "sliding_window_attention_size";
    TSR_TRY(const int64_t window, config_.integer_or(key, 0, 0, kMost));
    std::vector<std::byte> windowed;
    bool is_usual = true;
    for (size_t i = 0; types && i < types->items.size(); i++) {
        const std::string& type = types->items[i].text;
        if (type != "full_attention" && type != "sliding_attention" && type != "attention")
            return fail(
                ErrorCode::Unsupported,
                "config.json: 'layer_types': expected attention in every layer, found '%s' at layer %zu",
                printable(type).c_str(), i);
        const bool has_window = type == "sliding_attention";
        const auto layer = static_cast<int64_t>(i);
        windowed.push_back(static_cast<std::byte>(has_window));
        is_usual = is_usual && has_window == (spec_.window_period > 0 &&
                                              layer % spec_.window_period < spec_.window_period - 1);
    }
    if (spec_.window_period == 0) {
        if (!is_usual)
            return fail(
                ErrorCode::Unsupported,
                "config.json: 'layer_types': architecture '%s' has no sliding windows, found layers with "
                "sliding_attention",
                std::string(arch_.arch).c_str());
        TSR_TRY(const bool uses, config_.boolean_or("use_sliding_window", spec_.name != "phi3"));
        if (window > 0 && window < context_ && uses)
            log::warn("config.json: 'sliding_window' %lld is ignored: this model uses full attention",
                      static_cast<long long>(window));
        return {};
    }
    if (!arch_.has_windows || (!config_.has(key) && spec_.default_window > 0)) return {};
    TSR_TRY(const int64_t needed, config_.integer(key, 1, kMost));
    put("attention.sliding_window", needed);
    if (!is_usual)
        writer_.set_array(prefix_ + "attention.sliding_window_pattern", gguf::ValueType::Bool, windowed);
    if (types) return {};
    TSR_TRY(const int64_t period, config_.integer_or("sliding_window_pattern", spec_.window_period, 1, 1024));
    if (period != spec_.window_period) put("attention.sliding_window_pattern", period);
    return {};
}

const JsonValue* Numbers::rope_value(std::string_view key) const {
    const JsonValue* value = rope_ ? rope_->find(key) : nullptr;
    return value && !value->is(JsonValue::Kind::Null) ? value : nullptr;
}

Result<double> Numbers::rope_real(std::string_view key) const {
    const JsonValue* value = rope_value(key);
    const auto x = value && value->is(JsonValue::Kind::Number) ? parse_double(value->text) : std::nullopt;
    if (!x || !(*x > 0) || *x > kMaxReal)
        return fail(ErrorCode::Malformed,
                    "config.json: 'rope_scaling.%s': expected a number above 0, found %s",
                    std::string(key).c_str(), value ? printable(value->text, 40).c_str() : "none");
    return *x;
}

Result<double> Numbers::rope_real_or(std::string_view key, double other) const {
    return rope_value(key) ? rope_real(key) : Result<double>(other);
}

Result<double> Numbers::original_context() const {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (rope_value(kKey)) return rope_real(kKey);
    TSR_TRY(const int64_t tokens, config_.integer_or(kKey, context_, 1, kMost));
    return static_cast<double>(tokens);
}

Result<std::vector<float>> Numbers::factors(std::string_view key) const {
    const JsonValue* list = rope_value(key);
    const size_t n = static_cast<size_t>(out_.sizes.rope.n_rot / 2);
    if (!list || !list->is(JsonValue::Kind::Array) || list->items.size() != n)
        return fail(ErrorCode::Malformed, "config.json: 'rope_scaling.%s': expected %zu numbers, found %zu",
                    std::string(key).c_str(), n, list ? list->items.size() : 0);
    std::vector<float> values;
    for (const JsonValue& item : list->items) {
        const auto x = item.is(JsonValue::Kind::Number) ? parse_double(item.text) : std::nullopt;
        if (!x || !(*x > 0) || *x > kMaxReal)
            return fail(ErrorCode::Malformed,
                        "config.json: 'rope_scaling.%s': expected numbers above 0, found %s",
                        std::string(key).c_str(), printable(item.text, 40).c_str());
        values.push_back(static_cast<float>(*x));
    }
    return values;
}

/// The file's reader multiplies attn_factor by (1 + s) / (1 + log_multiplier s), s = ln(factor) / 10.
Result<void> Numbers::yarn(double factor) {
    TSR_TRY(const double original, original_context());
    TSR_TRY(const double scale_all, rope_real_or("mscale_all_dim", 0));
    TSR_TRY(const double scale, rope_real_or("mscale", scale_all > 0 ? 1 : 0));
    writer_.set_string(prefix_ + "rope.scaling.type", "yarn");
    put("rope.scaling.factor", factor);
    put("rope.scaling.original_context_length", static_cast<int64_t>(original));
    for (const char* beta : {"beta_fast", "beta_slow"}) {
        if (!rope_value(beta)) continue;
        TSR_TRY(const double value, rope_real(beta));
        put(std::string("rope.scaling.yarn_") + beta, value);
    }
    const double s = factor > 1 ? 0.1 * exact_log(factor) : 0;
    double magnitude = 1 + s;
    if (rope_value("attention_factor")) {
        TSR_TRY(magnitude, rope_real("attention_factor"));
    } else if (scale == 1 && scale_all > 0) {
        put("rope.scaling.yarn_log_multiplier", scale_all);
    } else if (scale > 0 && scale_all > 0) {
        magnitude = (1 + scale * s) / (1 + scale_all * s);
    }
    if (std::fabs(magnitude / (1 + s) - 1) > 1e-6) put("rope.scaling.attn_factor", magnitude / (1 + s));
    return {};
}

/// Llama 3: wavelengths that are long compared to the original context are stretched, short ones are not, and
/// those between partly.
Result<void> Numbers::divide_by_wavelength(double factor) {
    constexpr double kTwoPi = 6.283185307179586;
    TSR_TRY(const double low, rope_real("low_freq_factor"));
    TSR_TRY(const double high, rope_real("high_freq_factor"));
    TSR_TRY(const double original, original_context());
    if (high <= low)
        return fail(ErrorCode::Malformed,
                    "config.json: 'rope_scaling.high_freq_factor': expected more than low_freq_factor %g, "
                    "found %g",
                    low, high);
    std::vector<float> divisors;
    const int64_t n_rot = out_.sizes.rope.n_rot;
    for (int64_t i = 0; i < n_rot; i += 2) {
        const double wave =
            kTwoPi * exact_exp(static_cast<double>(i) / static_cast<double>(n_rot) * exact_log(base_));
        const double share = std::clamp((original / wave - low) / (high - low), 0.0, 1.0);
        double divisor = 1 / ((1 - share) / factor + share);
        if (share == 0) divisor = factor;
        if (share == 1) divisor = 1;
        divisors.push_back(static_cast<float>(divisor));
    }
    out_.rope_tensors.emplace_back("rope_freqs.weight", std::move(divisors));
    return {};
}

Result<void> Numbers::longrope() {
    TSR_TRY(const double original, original_context());
    TSR_TRY(std::vector<float> shorter, factors("short_factor"));
    TSR_TRY(std::vector<float> longer, factors("long_factor"));
    const double stretch = static_cast<double>(context_) / original;
    double magnitude = 1;
    if (stretch > 1 && original > 1) magnitude = std::sqrt(1 + exact_log(stretch) / exact_log(original));
    if (rope_value("attention_factor")) {
        TSR_TRY(magnitude, rope_real("attention_factor"));
    }
    put("rope.scaling.original_context_length", static_cast<int64_t>(original));
    put("rope.scaling.attn_factor", magnitude);
    out_.rope_tensors.emplace_back("rope_factors_short.weight", std::move(shorter));
    out_.rope_tensors.emplace_back("rope_factors_long.weight", std::move(longer));
    return {};
}

Result<void> Numbers::scaling(const std::string& type) {
    if (type == "default") return {};
    if (type == "longrope" || type == "su") return longrope();
    TSR_TRY(const double factor, rope_real("factor"));
    if (type == "linear") {
        if (factor == 1) return {};
        writer_.set_string(prefix_ + "rope.scaling.type", "linear");
        put("rope.scaling.factor", factor);
        return {};
    }
    if (type == "yarn") return yarn(factor);
    if (type == "llama3") return divide_by_wavelength(factor);
    return fail(ErrorCode::Unsupported,
                "config.json: 'rope_scaling': expected linear, llama3, yarn or longrope, found '%s'",
                printable(type).c_str());
}

Result<void> Numbers::rope() {
    Hparams& h = out_.sizes;
    rope_ = config_.find("rope_parameters");
    if (!rope_) rope_ = config_.find("rope_scaling");
    // Of layers with full attention, and of those with a sliding window.
    if (const JsonValue* full = rope_ ? rope_->find("full_attention") : nullptr) {
        const JsonValue* local = find_pointer(*rope_, "/sliding_attention/rope_theta");
        if (const auto base = local ? parse_double(local->text) : std::nullopt)
            put("rope.freq_base_swa", *base);
        rope_ = full;
    } else if (config_.has("rope_local_base_freq")) {
        TSR_TRY(const double base, config_.real("rope_local_base_freq"));
        put("rope.freq_base_swa", base);
    }
    if (rope_ && !rope_->is(JsonValue::Kind::Object))
        return fail(ErrorCode::Malformed, "config.json: 'rope_scaling': expected an object, found %s",
                    json_kind_name(rope_->kind));
    if (rope_value("mrope_section"))
        return fail(ErrorCode::Unsupported, "config.json: 'rope_scaling.mrope_section' is not supported");
    TSR_TRY(const double base, config_.real_or("rope_theta", 10000));
    TSR_TRY(base_, rope_real_or("rope_theta", base));
    if (!(base_ > 0) || base_ > kMaxReal)
        return fail(ErrorCode::Malformed, "config.json: 'rope_theta': expected a number above 0, found %g",
                    base_);
    TSR_TRY(const double share, config_.real_or("partial_rotary_factor", 1));
    TSR_TRY(const double own_share, rope_real_or("partial_rotary_factor", share));
    const auto k_dim = static_cast<double>(h.layers.front().k_dim);
    const double rotated = k_dim * own_share;
    const bool is_whole = spec_.rope == RopeKind::Norm && permutes_heads(arch_);
    if (!(rotated >= 2) || rotated > k_dim || (is_whole && own_share != 1))
        return fail(ErrorCode::Unsupported,
                    "config.json: 'partial_rotary_factor': architecture '%s' rotates %s, found %g",
                    std::string(arch_.arch).c_str(), is_whole ? "whole heads" : "a part of a head",
                    own_share);
    h.rope.n_rot = static_cast<int64_t>(rotated);
    put("rope.freq_base", base_);
    put("rope.dimension_count", h.rope.n_rot);
    if (rope_value("llama_4_scaling_beta")) {
        TSR_TRY(const double strength, rope_real("llama_4_scaling_beta"));
        put("attention.temperature_scale", strength);
    }
    if (spec_.has_multipliers) {
        TSR_TRY(const std::string kind, config_.text_or("position_embedding_type", "rope"));
        if (kind != "rope" && kind != "nope")
            return fail(ErrorCode::Unsupported,
                        "config.json: 'position_embedding_type': expected rope or nope, found '%s'",
                        printable(kind).c_str());
        if (kind == "nope") writer_.set_bool(prefix_ + "rope.scaling.finetuned", false);
    }
    const JsonValue* type = rope_value("rope_type");
    if (!type) type = rope_value("type");
    return scaling(type ? type->text : "default");
}

Result<HfNumbers> Numbers::read() {
    writer_.set_string("general.architecture", arch_.arch);
    TSR_TRY_VOID(sizes());
    TSR_TRY_VOID(experts());
    TSR_TRY_VOID(rope());
    TSR_TRY_VOID(attention());
    return std::move(out_);
}

}  // namespace

Result<HfNumbers> read_numbers(const HfArch& arch, const ArchSpec& spec, const HfConfig& config,
                               gguf::Writer& writer) {
    return Numbers(arch, spec, config, writer).read();
}

}  // namespace tessera::convert
