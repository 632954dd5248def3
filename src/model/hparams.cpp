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
constexpr int64_t kMaxHeads = 512;

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
        TSR_TRY(const int64_t first, element(key, *value, 0, min, max));
        for (uint64_t i = 1; i < value->size(); ++i)
            if (value->at(i).as_int() != first)
                return fail(ErrorCode::Unsupported,
                            "key '%s': expected one value for all layers, found different ones: %s",
                            key.c_str(), value->to_string().c_str());
        return first;
    }
    Result<int64_t> integer_or(const char* suffix, int64_t fallback, int64_t min, int64_t max) const {
        return has(suffix) ? integer(suffix, min, max) : Result<int64_t>(fallback);
    }
    /// A field of every layer: a scalar for all, or an array with an element for each layer.
    Result<void> per_layer(const char* suffix, int64_t min, int64_t max, std::vector<LayerSpec>& layers,
                           int64_t LayerSpec::*field) const {
        const std::string key = prefix_ + suffix;
        const gguf::Value* value = file_.find(key);
        if (!value || !value->is_array()) {
            TSR_TRY(const int64_t one, file_.get_int(key, min, max));
            for (LayerSpec& layer : layers) layer.*field = one;
            return {};
        }
        if (value->size() != layers.size())
            return fail(ErrorCode::Malformed,
                        "key '%s': expected an integer, or %zu of them (one per layer), found %llu elements",
                        key.c_str(), layers.size(), static_cast<unsigned long long>(value->size()));
        for (size_t i = 0; i < layers.size(); ++i) {
            TSR_TRY(layers[i].*field, element(key, *value, i, min, max));
        }
        return {};
    }
    /// The same, or nothing without the key.
    Result<void> per_layer_or(const char* suffix, int64_t min, int64_t max, std::vector<LayerSpec>& layers,
                              int64_t LayerSpec::*field) const {
        return has(suffix) ? per_layer(suffix, min, max, layers, field) : Result<void>();
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
    static Result<int64_t> element(const std::string& key, const gguf::Value& array, uint64_t i, int64_t min,
                                   int64_t max) {
        const auto found = array.at(i).as_int();
        if (found && *found >= min && *found <= max) return *found;
        return fail(ErrorCode::Malformed,
                    "key '%s': expected integers from %lld to %lld, found %s as element %llu", key.c_str(),
                    static_cast<long long>(min), static_cast<long long>(max), array.at(i).to_string().c_str(),
                    static_cast<unsigned long long>(i));
    }

    const gguf::File& file_;
    std::string prefix_;
};

/// Windows, and the RoPE variants that follow from them.
Result<void> load_windows(const Keys& keys, const ArchSpec& spec, Hparams& h) {
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
    return {};
}

Result<void> load_head_counts(const Keys& keys, Hparams& h) {
    TSR_TRY_VOID(keys.per_layer("attention.head_count", 1, kMaxHeads, h.layers, &LayerSpec::n_head));
    for (LayerSpec& layer : h.layers) layer.n_head_kv = layer.n_head;
    TSR_TRY_VOID(keys.per_layer_or("attention.head_count_kv", 1, kMaxHeads, h.layers, &LayerSpec::n_head_kv));
    for (size_t i = 0; i < h.layers.size(); ++i)
        if (h.layers[i].n_head % h.layers[i].n_head_kv != 0)
            return fail(ErrorCode::Malformed,
                        "key '%s': expected a divisor of head_count %lld for layer %zu, found %lld",
                        keys.name("attention.head_count_kv").c_str(),
                        static_cast<long long>(h.layers[i].n_head), i,
                        static_cast<long long>(h.layers[i].n_head_kv));
    return {};
}

/// Head sizes of one kind: of queries and keys, or of values. Layers with a window may have a key of their
/// own; without any key it is n_embd / n_head.
Result<void> load_head_dims(const Keys& keys, const char* suffix, int64_t LayerSpec::*dim, Hparams& h) {
    const std::string windowed = std::string(suffix) + "_swa";
    for (size_t i = 0; i < h.layers.size(); ++i) {
        LayerSpec& layer = h.layers[i];
        layer.*dim = h.n_embd / layer.n_head;
        if (h.n_embd % layer.n_head == 0 || keys.has(suffix)) continue;
        return fail(ErrorCode::Malformed,
                    "key '%s': expected a divisor of embedding_length %lld for layer %zu (there is no %s), "
                    "found %lld",
                    keys.name("attention.head_count").c_str(), static_cast<long long>(h.n_embd), i,
                    keys.name(suffix).c_str(), static_cast<long long>(layer.n_head));
    }
    TSR_TRY_VOID(keys.per_layer_or(suffix, 1, kMaxHeadDim, h.layers, dim));
    if (keys.has(windowed.c_str())) {
        TSR_TRY(const int64_t n, keys.integer(windowed.c_str(), 1, kMaxHeadDim));
        for (LayerSpec& layer : h.layers)
            if (layer.window > 0) layer.*dim = n;
    }
    for (size_t i = 0; i < h.layers.size(); ++i)
        if (const int64_t n = h.layers[i].*dim; n % 16 != 0 || n > kMaxHeadDim)
            return fail(ErrorCode::Unsupported,
                        "key '%s' (or embedding_length / head_count): expected a multiple of 16 up to %lld "
                        "for layer %zu, found %lld",
                        keys.name(suffix).c_str(), static_cast<long long>(kMaxHeadDim), i,
                        static_cast<long long>(n));
    return {};
}

Result<void> load_heads(const Keys& keys, Hparams& h) {
    TSR_TRY_VOID(load_head_counts(keys, h));
    TSR_TRY_VOID(load_head_dims(keys, "attention.key_length", &LayerSpec::k_dim, h));
    TSR_TRY_VOID(load_head_dims(keys, "attention.value_length", &LayerSpec::v_dim, h));
    TSR_TRY(const double scale, keys.real_or("attention.scale", 0, 0, 1e4));
    h.has_attn_scale = scale > 0;
    for (LayerSpec& layer : h.layers)
        layer.attn_scale =
            static_cast<float>(scale > 0 ? scale : 1.0 / std::sqrt(static_cast<double>(layer.k_dim)));
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

/// The size of the smallest head of the layers with this RoPE variant; 0 if there are none.
int64_t smallest_head(const Hparams& h, LayerRope rope) {
    int64_t smallest = 0;
    for (const LayerSpec& layer : h.layers)
        if (layer.rope == rope && (smallest == 0 || layer.k_dim < smallest)) smallest = layer.k_dim;
    return smallest;
}

Result<int64_t> load_n_rot(const Keys& keys, const char* suffix, int64_t fallback, int64_t k_dim) {
    TSR_TRY(const int64_t n_rot, keys.integer_or(suffix, fallback, 2, k_dim));
    if (n_rot % 2 == 0) return n_rot;
    return fail(ErrorCode::Malformed,
                "key '%s': expected an even number up to the head size %lld, found %lld",
                keys.name(suffix).c_str(), static_cast<long long>(k_dim), static_cast<long long>(n_rot));
}

Result<void> load_rope(const Keys& keys, Hparams& h) {
    RopeHparams& rope = h.rope;
    int64_t k_dim = smallest_head(h, LayerRope::Global);
    if (k_dim == 0) k_dim = h.layers.front().k_dim;
    TSR_TRY(rope.n_rot, load_n_rot(keys, "rope.dimension_count", k_dim, k_dim));
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

/// The RoPE of windowed layers, where it differs.
Result<void> load_local_rope(const Keys& keys, const ArchSpec& spec, Hparams& h) {
    const int64_t k_dim = smallest_head(h, LayerRope::Local);
    if (k_dim == 0) return {};
    TSR_TRY(h.local_rope.n_rot,
            load_n_rot(keys, "rope.dimension_count_swa", std::min(h.rope.n_rot, k_dim), k_dim));
    const double base = spec.local_rope_base > 0 ? spec.local_rope_base : h.rope.base;
    TSR_TRY(h.local_rope.base, keys.real_or("rope.freq_base_swa", base, 1e-3, 1e12));
    return {};
}

/// Kinds and sizes of the feed-forward sublayers. Experts are in all layers but the leading dense ones and
/// those whose expert_feed_forward_length is 0.
Result<void> load_ffn(const Keys& keys, Hparams& h) {
    constexpr const char *kDense = "feed_forward_length", *kExpert = "expert_feed_forward_length",
                         *kShared = "expert_shared_feed_forward_length";
    TSR_TRY(h.moe.n_expert, keys.integer_or("expert_count", 0, 0, 1024));
    const bool has_experts = h.moe.n_expert > 0;
    // Models without dense layers may lack the dense length.
    if (!has_experts || !keys.has(kExpert) || keys.has(kDense))
        TSR_TRY_VOID(keys.per_layer(kDense, 0, kMaxFf, h.layers, &LayerSpec::n_ff));
    if (has_experts) {
        TSR_TRY(h.moe.n_used, keys.integer("expert_used_count", 1, h.moe.n_expert));
        TSR_TRY(const double scale, keys.real_or("expert_weights_scale", 1, 0, 1e4));
        if (scale > 0) h.moe.weight_scale = static_cast<float>(scale);
        TSR_TRY(const int64_t n_dense, keys.integer_or("leading_dense_block_count", 0, 0, h.n_layer));
        std::vector<LayerSpec> experts = h.layers;
        TSR_TRY_VOID(keys.per_layer_or(kExpert, 0, kMaxFf, experts, &LayerSpec::n_ff));
        TSR_TRY_VOID(keys.per_layer_or(kShared, 0, kMaxFf, experts, &LayerSpec::n_ff_shared));
        for (auto i = static_cast<size_t>(n_dense); i < experts.size(); ++i) {
            if (experts[i].n_ff == 0) continue;
            h.layers[i] = experts[i];
            h.layers[i].ffn = FfnKind::Moe;
        }
        if (h.largest(&LayerSpec::ffn) == FfnKind::Dense)
            return fail(ErrorCode::Malformed,
                        "key '%s': expected 0, as keys '%s' and '%s' leave no layer with experts, found %lld",
                        keys.name("expert_count").c_str(), keys.name("leading_dense_block_count").c_str(),
                        keys.name(kExpert).c_str(), static_cast<long long>(h.moe.n_expert));
    }
    for (size_t i = 0; i < h.layers.size(); ++i)
        if (h.layers[i].n_ff == 0)
            return fail(ErrorCode::Malformed, "key '%s': expected 1 to %lld for layer %zu, which %s, found 0",
                        keys.name(kDense).c_str(), static_cast<long long>(kMaxFf), i,
                        has_experts ? "has no experts" : "is dense");
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
    h.layers.resize(static_cast<size_t>(h.n_layer));
    TSR_TRY(const double eps, keys.real_or(spec.norm_eps_key(), 1e-5, 0, 1));
    h.norm_eps = static_cast<float>(eps);
    TSR_TRY_VOID(load_windows(keys, spec, h));
    TSR_TRY_VOID(load_heads(keys, h));
    TSR_TRY_VOID(load_ffn(keys, h));
    TSR_TRY_VOID(load_scales(keys, spec, h));
    TSR_TRY_VOID(load_rope(keys, h));
    TSR_TRY_VOID(load_local_rope(keys, spec, h));
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
