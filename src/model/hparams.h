#pragma once
// Hyperparameters of a model, read from GGUF keys and range-checked, in one struct per concern.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/backend.h"
#include "ggml-like/gguf/file.h"
#include "src/model/layer_spec.h"

namespace tessera {

struct ArchSpec;

enum class RopeScaling : uint8_t { None, Linear, Yarn, LongRope };

struct RopeHparams {
    int64_t n_rot = 0;  // elements of a head that are rotated, even
    double base = 10000;
    RopeScaling scaling = RopeScaling::None;
    double factor = 1;         // factor by which the context is extended
    int64_t original_ctx = 0;  // context before extension (YaRN, LongRoPE)
    double attn_factor = 1;    // factor of the magnitude
    double beta_fast = 32, beta_slow = 1;
    double log_multiplier =
        0;  // YaRN's mscale_all_dim: > 0 divides the magnitude by the one computed with it
};

/// The same for all layers with experts.
struct MoeHparams {
    int64_t n_expert = 0;  // 0 = all layers are dense
    int64_t n_used = 0;
    float weight_scale = 1;  // factor of the weights of selected experts
};

struct Hparams {
    std::string arch;
    int64_t n_layer = 0, n_embd = 0;
    int64_t n_ctx_train = 0;
    int64_t n_vocab = 0;  // rows of the embedding table
    float norm_eps = 0;
    bool has_attn_scale = false;                // the file has the factor of q.k
    float attn_softcap = 0, final_softcap = 0;  // 0 = off
    float embd_scale = 1, residual_scale = 1;   // of embeddings; of the outputs of sublayers
    float logit_scale = 1;                      // of logits
    AttnTempScaling attn_temp;
    RopeHparams rope;        // of layers with LayerRope::Global
    RopeHparams local_rope;  // of layers with LayerRope::Local; n_rot = 0: there are none
    MoeHparams moe;
    std::vector<LayerSpec> layers;  // [n_layer]

    /// The largest value of a field or function of the layers.
    template <class Member>
    auto largest(Member member) const {
        return std::invoke(member, *std::ranges::max_element(layers, {}, member));
    }

    /// Errors name the key, the expected and the found value.
    static Result<Hparams> load(const gguf::File& file, const ArchSpec& spec);
};

/// RoPE frequencies.
struct Frequencies {
    std::vector<double> freq;  // [n_rot / 2] radians per position
    float magnitude = 1;       // factor of cosine and sine
};

/// base^(-2i/n_rot) / factors[i], with the context extension applied. `factors` [n_rot / 2] are the divisors
/// of a rope_freqs or rope_factors tensor, or null. Sources: RoFormer (arXiv 2104.09864), YaRN (arXiv
/// 2309.00071) section 3, LongRoPE (arXiv 2402.13753).
Frequencies rope_frequencies(const RopeHparams& rope, const float* factors);

}  // namespace tessera
