// Reads hyperparameters. Limits are generous multiples of the largest published models, so that sizes
// computed from them cannot overflow and corrupt files are recognized.
#include "src/model/hparams.h"

#include <algorithm>
#include <cmath>

#include "common/exact_math.h"
#include "common/strings.h"
#include "src/model/arch_spec.h"

namespace tessera {

namespace {

constexpr int64_t kMaxEmbd = 49152;  // also keeps a packed row group of any type within a kernel's scratch
constexpr int64_t kMaxFf = 1 << 20;
constexpr int64_t kMaxHeadDim = 512;

/// Keys of one architecture: "llama." + suffix.
class Keys {
  public:
    Keys(const gguf::File& file, std::string_view arch) : file_(file), prefix_(std::string(arch) + ".") {}

    bool has(const char* suffix) const { return file_.find(prefix_ + suffix) != nullptr; }

    /// A scalar, or an array of equal elements (older converters write one entry per layer).
    Result<int64_t> integer(const char* suffix, int64_t min, int64_t max) const {
        const std::string key = prefix_ + suffix;
        const gguf::Value* value = file_.find(key);
        if (!value || !value->is_array() || value->size() == 0) return file_.get_int(key, min, max);
        const auto first = value->at(0).as_int();
        if (!first || *first < min || *first > max)
            return fail(ErrorCode::Malformed, "key '%s': expected integers from %lld to %lld, found %s",
                        key.c_str(), static_cast<long long>(min), static_cast<long long>(max),
                        value->to_string().c_str());
        for (uint64_t i = 1; i < value->size(); ++i)
            if (value->at(i).as_int() != first)
                return fail(ErrorCode::Unsupported,
                            "key '%s': expected one value for all layers, found different ones: %s",
                            key.c_str(), value->to_string().c_str());
        return *first;
    }
    Result<int64_t> integer_or(const char* suffix, int64_t fallback, int64_t min, int64_t max) const {
        return has(suffix) ? integer(suffix, min, max) : Result<int64_t>(fallback);
    }
    Result<double> real_or(const char* suffix, double fallback, double min, double max) const {
        const std::string key = prefix_ + suffix;
        TSR_TRY(const double value, file_.get_float_or(key, fallback));
        if (value < min || value > max)
            return fail(ErrorCode::Malformed, "key '%s': expected a number from %g to %g, found %g",
                        key.c_str(), min, max, value);
        return value;
    }
    Result<std::string_view> text_or(const char* suffix, std::string_view fallback) const {
        return file_.get_string_or(prefix_ + suffix, fallback);
    }
    Result<bool> boolean_or(const char* suffix, bool fallback) const {
        return file_.get_bool_or(prefix_ + suffix, fallback);
    }
    /// Layers with a window: one bool per layer, or a number n: every n-th layer has none; with 0 all layers
    /// have one.
    Result<std::vector<bool>> windowed(const char* suffix, int64_t n_layer, int64_t fallback_period) const {
        const std::string key = prefix_ + suffix;
        const gguf::Value* value = file_.find(key);
        std::vector<bool> layers(static_cast<size_t>(n_layer));
        if (!value || !value->is_array()) {
            TSR_TRY(const int64_t period, file_.get_int_or(key, fallback_period, 0, 1024));
            for (int64_t i = 0; i < n_layer; ++i)
                layers[static_cast<size_t>(i)] = period == 0 || i % period < period - 1;
            return layers;
        }
        for (int64_t i = 0; i < n_layer; ++i) {
            const auto n = static_cast<int64_t>(value->size());
            const auto entry = n == n_layer ? value->at(static_cast<uint64_t>(i)).as_int() : std::nullopt;
            if (!entry || *entry < 0 || *entry > 1)
                return fail(ErrorCode::Malformed, "key '%s': expected %lld booleans, one per layer, found %s",
                            key.c_str(), static_cast<long long>(n_layer), value->to_string().c_str());
            layers[static_cast<size_t>(i)] = *entry != 0;
        }
        return layers;
    }
    std::string name(const char* suffix) const { return prefix_ + suffix; }

  private:
    const gguf::File& file_;
    std::string prefix_;
};

Result<void> load_heads(const Keys& keys, Hparams& h) {
    TSR_TRY(h.n_head, keys.integer("attention.head_count", 1, 512));
    TSR_TRY(h.n_head_kv, keys.integer_or("attention.head_count_kv", h.n_head, 1, 512));
    if (h.n_head % h.n_head_kv != 0)
        return fail(ErrorCode::Malformed, "key '%s': expected a divisor of head_count %lld, found %lld",
                    keys.name("attention.head_count_kv").c_str(), static_cast<long long>(h.n_head),
                    static_cast<long long>(h.n_head_kv));
    const int64_t derived = h.n_embd / h.n_head;
    if (h.n_embd % h.n_head != 0 && !keys.has("attention.key_length"))
        return fail(
            ErrorCode::Malformed,
            "key '%s': expected a divisor of embedding_length %lld (there is no key_length), found %lld",
            keys.name("attention.head_count").c_str(), static_cast<long long>(h.n_embd),
            static_cast<long long>(h.n_head));
    TSR_TRY(h.head_dim, keys.integer_or("attention.key_length", derived, 1, kMaxHeadDim));
    TSR_TRY(const int64_t value_length, keys.integer_or("attention.value_length", derived, 1, kMaxHeadDim));
    if (value_length != h.head_dim)
        return fail(ErrorCode::Unsupported, "key '%s': expected the same as the key length %lld, found %lld",
                    keys.name("attention.value_length").c_str(), static_cast<long long>(h.head_dim),
                    static_cast<long long>(value_length));
    if (h.head_dim % 16 != 0 || h.head_dim > kMaxHeadDim)
        return fail(ErrorCode::Unsupported,
                    "head size %lld (key '%s', or embedding_length / head_count): expected a multiple of 16 "
                    "up to %lld",
                    static_cast<long long>(h.head_dim), keys.name("attention.key_length").c_str(),
                    static_cast<long long>(kMaxHeadDim));
    const double scale = 1.0 / std::sqrt(static_cast<double>(h.head_dim));
    TSR_TRY(const double attn_scale, keys.real_or("attention.scale", 0, 0, 1e4));
    h.has_attn_scale = attn_scale > 0;
    h.attn_scale = static_cast<float>(attn_scale > 0 ? attn_scale : scale);
    return {};
}

/// Factors and soft-caps. A zero in the file means none, like an absent key.
Result<void> load_scales(const Keys& keys, const ArchSpec& spec, Hparams& h) {
    const auto cap = [&](const char* suffix, float fallback, float& value) -> Result<void> {
        TSR_TRY(const double found, keys.real_or(suffix, static_cast<double>(fallback), 0, 1e6));
        value = static_cast<float>(found);
        return {};
    };
    TSR_TRY_VOID(cap("attn_logit_softcapping", spec.attn_softcap, h.attn_softcap));
    TSR_TRY_VOID(cap("final_logit_softcapping", spec.final_softcap, h.final_softcap));
    if (spec.scale_embeddings_sqrt_dim) h.embd_scale = std::sqrt(static_cast<float>(h.n_embd));
    if (!spec.has_multipliers) return {};
    const auto factor = [&](const char* suffix) -> Result<double> {
        TSR_TRY(const double found, keys.real_or(suffix, 1, 0, 1e6));
        return found > 0 ? found : 1.0;
    };
    TSR_TRY(const double embd_scale, factor("embedding_scale"));
    TSR_TRY(const double residual_scale, factor("residual_scale"));
    TSR_TRY(const double logit_divisor, factor("logit_scale"));
    h.embd_scale = static_cast<float>(embd_scale);
    h.residual_scale = static_cast<float>(residual_scale);
    h.logit_scale = static_cast<float>(1 / logit_divisor);
    return {};
}

Result<void> load_rope(const Keys& keys, Hparams& h) {
    RopeHparams& rope = h.rope;
    TSR_TRY(rope.n_rot, keys.integer_or("rope.dimension_count", h.head_dim, 2, h.head_dim));
    if (rope.n_rot % 2 != 0)
        return fail(ErrorCode::Malformed,
                    "key '%s': expected an even number up to the head size %lld, found %lld",
                    keys.name("rope.dimension_count").c_str(), static_cast<long long>(h.head_dim),
                    static_cast<long long>(rope.n_rot));
    TSR_TRY(rope.base, keys.real_or("rope.freq_base", 10000, 1e-3, 1e12));
    // A factor without a type means linear; the oldest files call it scale_linear.
    TSR_TRY(const double old_factor, keys.real_or("rope.scale_linear", 1, 1e-3, 1e6));
    TSR_TRY(rope.factor, keys.real_or("rope.scaling.factor", old_factor, 0, 1e6));
    if (rope.factor == 0) rope.factor = 1;
    TSR_TRY(const std::string_view type,
            keys.text_or("rope.scaling.type", rope.factor != 1 ? "linear" : "none"));
    if (type == "none")
        rope.scaling = RopeScaling::None;
    else if (type == "linear")
        rope.scaling = RopeScaling::Linear;
    else if (type == "yarn")
        rope.scaling = RopeScaling::Yarn;
    else if (type == "longrope")
        rope.scaling = RopeScaling::LongRope;
    else
        return fail(ErrorCode::Unsupported, "key '%s': expected none, linear, yarn or longrope, found '%s'",
                    keys.name("rope.scaling.type").c_str(), printable(type, 40).c_str());
    TSR_TRY(rope.original_ctx,
            keys.integer_or("rope.scaling.original_context_length", h.n_ctx_train, 1, int64_t{1} << 31));
    TSR_TRY(rope.attn_factor, keys.real_or("rope.scaling.attn_factor", 1, 1e-3, 1e3));
    TSR_TRY(rope.beta_fast, keys.real_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
    TSR_TRY(rope.beta_slow, keys.real_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
    TSR_TRY(rope.log_multiplier, keys.real_or("rope.scaling.yarn_log_multiplier", 0, 0, 100));
    TSR_TRY(h.attn_temp.strength, keys.real_or("attention.temperature_scale", 0, 0, 100));
    h.attn_temp.period = rope.original_ctx;
    return {};
}

/// Per-layer settings: window and RoPE variant.
Result<void> load_layers(const Keys& keys, const ArchSpec& spec, Hparams& h) {
    h.layers.resize(static_cast<size_t>(h.n_layer));
    TSR_TRY(const bool rotates, keys.boolean_or("rope.scaling.finetuned", true));
    for (int64_t i = 0; i < h.n_layer; ++i)
        if ((spec.has_multipliers && !rotates) ||
            (spec.no_rope_period > 0 && (i + 1) % spec.no_rope_period == 0))
            h.layers[static_cast<size_t>(i)].rope = LayerRope::None;
    if (spec.window_period == 0) return {};
    TSR_TRY(const int64_t window,
            keys.integer_or("attention.sliding_window", spec.default_window, 0, int64_t{1} << 31));
    if (window == 0) return {};
    TSR_TRY(const std::vector<bool> windowed,
            keys.windowed("attention.sliding_window_pattern", h.n_layer, spec.window_period));
    for (size_t i = 0; i < windowed.size(); ++i) {
        if (!windowed[i]) continue;
        h.layers[i].window = window;
        if (spec.plain_local_rope) h.layers[i].rope = LayerRope::Local;
    }
    if (!spec.plain_local_rope) return {};
    h.local_rope.n_rot = h.rope.n_rot;
    const double base = spec.local_rope_base > 0 ? spec.local_rope_base : h.rope.base;
    TSR_TRY(h.local_rope.base, keys.real_or("rope.freq_base_swa", base, 1e-3, 1e12));
    return {};
}

Result<void> load_moe(const Keys& keys, Hparams& h) {
    if (h.moe.n_expert == 0) return {};
    TSR_TRY(h.moe.n_used, keys.integer("expert_used_count", 1, h.moe.n_expert));
    TSR_TRY(h.moe.n_ff, keys.integer_or("expert_feed_forward_length", h.n_ff, 1, kMaxFf));
    TSR_TRY(h.moe.n_ff_shared, keys.integer_or("expert_shared_feed_forward_length", 0, 0, kMaxFf));
    TSR_TRY(const double scale, keys.real_or("expert_weights_scale", 1, 0, 1e4));
    if (scale > 0) h.moe.weight_scale = static_cast<float>(scale);
    return {};
}

}  // namespace

Result<Hparams> Hparams::load(const gguf::File& file, const ArchSpec& spec) {
    Hparams h;
    h.arch = spec.name;
    const Keys keys(file, spec.name);
    // Each layer has at least one tensor, so a file cannot have more layers than tensors.
    const auto n_tensors = static_cast<int64_t>(file.tensors().size());
    TSR_TRY(h.n_layer, keys.integer("block_count", 1, std::max<int64_t>(1, n_tensors)));
    TSR_TRY(h.n_embd, keys.integer("embedding_length", 1, kMaxEmbd));
    TSR_TRY(h.n_ctx_train, keys.integer("context_length", 1, int64_t{1} << 31));
    TSR_TRY(h.moe.n_expert, keys.integer_or("expert_count", 0, 0, 1024));
    // Models without dense layers may lack the dense feed-forward length.
    const bool is_dense = h.moe.n_expert == 0 || !keys.has("expert_feed_forward_length");
    if (is_dense || keys.has("feed_forward_length")) {
        TSR_TRY(h.n_ff, keys.integer("feed_forward_length", is_dense ? 1 : 0, kMaxFf));
    }
    TSR_TRY(const double eps, keys.real_or("attention.layer_norm_rms_epsilon", 1e-5, 0, 1));
    h.norm_eps = static_cast<float>(eps);
    TSR_TRY_VOID(load_heads(keys, h));
    TSR_TRY_VOID(load_scales(keys, spec, h));
    TSR_TRY_VOID(load_rope(keys, h));
    TSR_TRY_VOID(load_layers(keys, spec, h));
    TSR_TRY_VOID(load_moe(keys, h));
    if (spec.finish) spec.finish(h);
    return h;
}

Frequencies rope_frequencies(const RopeHparams& rope, const float* factors) {
    const double n_rot = static_cast<double>(rope.n_rot);
    const double log_base = exact_log(rope.base);
    double low = 0, high = 0, stretch = 1;
    double scale = rope.attn_factor;
    if (rope.scaling == RopeScaling::Linear || rope.scaling == RopeScaling::Yarn) stretch = 1.0 / rope.factor;
    if (rope.scaling == RopeScaling::Yarn) {
        // The pair of elements that makes `beta` rotations within the original context.
        constexpr double kTwoPi = 6.283185307179586;
        const auto pair_of = [&](double beta) {
            return n_rot * exact_log(static_cast<double>(rope.original_ctx) / (beta * kTwoPi)) /
                   (2 * log_base);
        };
        low = std::max(0.0, std::floor(pair_of(rope.beta_fast)));
        high = std::min(n_rot - 1, std::ceil(pair_of(rope.beta_slow)));
        const double stretched = 0.1 * exact_log(rope.factor);
        if (stretched > 0) scale *= (1 + stretched) / (1 + rope.log_multiplier * stretched);
    }
    std::vector<double> freq(static_cast<size_t>(rope.n_rot / 2));
    for (size_t i = 0; i < freq.size(); ++i) {
        const double pair = static_cast<double>(i);
        double extrapolated = exact_exp(-2.0 * pair / n_rot * log_base);
        if (factors) extrapolated /= static_cast<double>(factors[i]);
        double keep = 0;  // share of the unscaled frequency
        if (rope.scaling == RopeScaling::Yarn)
            keep = 1 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
        freq[i] = extrapolated * stretch * (1 - keep) + extrapolated * keep;
    }
    return {std::move(freq), static_cast<float>(scale)};
}

}  // namespace tessera
