// Reads hyperparameters. Limits are generous multiples of the largest published models: they exist so that
// sizes computed from them cannot overflow and a broken file is named as such.
#include "src/model/hparams.h"

#include <algorithm>
#include <cmath>

#include "src/model/arch_spec.h"
#include "src/model/exact_math.h"

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

    /// A scalar, or an array whose elements are all the same (older converters write one entry a layer).
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
    h.attn_scale = static_cast<float>(attn_scale > 0 ? attn_scale : scale);
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
    // A factor without a type means linear; scale_linear is its name in the oldest files.
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
    else
        return fail(ErrorCode::Unsupported, "key '%s': expected none, linear or yarn, found '%.*s'",
                    keys.name("rope.scaling.type").c_str(),
                    static_cast<int>(std::min<size_t>(type.size(), 40)), type.data());
    TSR_TRY(rope.original_ctx,
            keys.integer_or("rope.scaling.original_context_length", h.n_ctx_train, 1, int64_t{1} << 31));
    TSR_TRY(rope.attn_factor, keys.real_or("rope.scaling.attn_factor", 1, 1e-3, 1e3));
    TSR_TRY(rope.beta_fast, keys.real_or("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6));
    TSR_TRY(rope.beta_slow, keys.real_or("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6));
    return {};
}

Result<void> load_moe(const Keys& keys, Hparams& h) {
    TSR_TRY(h.moe.n_expert, keys.integer_or("expert_count", 0, 0, 1024));
    if (h.moe.n_expert == 0) return {};
    TSR_TRY(h.moe.n_used, keys.integer("expert_used_count", 1, h.moe.n_expert));
    TSR_TRY(h.moe.n_ff, keys.integer_or("expert_feed_forward_length", h.n_ff, 1, kMaxFf));
    return {};
}

}  // namespace

Result<Hparams> Hparams::load(const gguf::File& file, const ArchSpec& spec) {
    Hparams h;
    h.arch = spec.name;
    const Keys keys(file, spec.name);
    // Each layer has tensors of its own, so more layers than tensors cannot be.
    const auto n_tensors = static_cast<int64_t>(file.tensors().size());
    TSR_TRY(h.n_layer, keys.integer("block_count", 1, std::max<int64_t>(1, n_tensors)));
    TSR_TRY(h.n_embd, keys.integer("embedding_length", 1, kMaxEmbd));
    TSR_TRY(h.n_ctx_train, keys.integer("context_length", 1, int64_t{1} << 31));
    TSR_TRY(h.n_ff, keys.integer("feed_forward_length", 1, kMaxFf));
    TSR_TRY(const double eps, keys.real_or("attention.layer_norm_rms_epsilon", 1e-5, 0, 1));
    h.norm_eps = static_cast<float>(eps);
    TSR_TRY_VOID(load_heads(keys, h));
    TSR_TRY_VOID(load_rope(keys, h));
    TSR_TRY_VOID(load_moe(keys, h));
    return h;
}

std::vector<double> rope_frequencies(const RopeHparams& rope, const float* factors, float* magnitude) {
    const double n_rot = static_cast<double>(rope.n_rot);
    const double log_base = exact_log(rope.base);
    double low = 0, high = 0, stretch = 1;
    double scale = rope.attn_factor;
    if (rope.scaling != RopeScaling::None) stretch = 1.0 / rope.factor;
    if (rope.scaling == RopeScaling::Yarn) {
        // The pair that turns `beta` times within the original context.
        constexpr double kTwoPi = 6.283185307179586;
        const auto pair_of = [&](double beta) {
            return n_rot * exact_log(static_cast<double>(rope.original_ctx) / (beta * kTwoPi)) /
                   (2 * log_base);
        };
        low = std::max(0.0, std::floor(pair_of(rope.beta_fast)));
        high = std::min(n_rot - 1, std::ceil(pair_of(rope.beta_slow)));
        scale *= 1.0 + 0.1 * exact_log(rope.factor);
    }
    std::vector<double> freq(static_cast<size_t>(rope.n_rot / 2));
    for (size_t i = 0; i < freq.size(); ++i) {
        const double pair = static_cast<double>(i);
        double extrapolated = exact_exp(-2.0 * pair / n_rot * log_base);
        if (factors) extrapolated /= static_cast<double>(factors[i]);
        double keep = 0;  // share of the unstretched frequency
        if (rope.scaling == RopeScaling::Yarn)
            keep = 1 - std::clamp((pair - low) / std::max(0.001, high - low), 0.0, 1.0);
        freq[i] = extrapolated * stretch * (1 - keep) + extrapolated * keep;
    }
    *magnitude = static_cast<float>(scale);
    return freq;
}

}  // namespace tessera
