#pragma once
// Hyperparameters of a model, read from GGUF keys and range-checked, in one struct per concern.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/backend.h"
#include "ggml-like/gguf/file.h"

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

struct MoeHparams {
    int64_t n_expert = 0;  // 0 = dense
    int64_t n_used = 0;
    int64_t n_ff = 0;         // of one expert
    int64_t n_ff_shared = 0;  // of the shared expert; 0 = none
    float weight_scale = 1;   // factor of the weights of selected experts
};

/// RoPE variant of a layer.
enum class LayerRope : uint8_t { None, Global, Local };

struct LayerHparams {
    int64_t window = 0;  // keys that a query attends to; 0 = all
    LayerRope rope = LayerRope::Global;
    int64_t state_floats = 0;  // of one sequence; 0 = the layer is not recurrent
};

struct Hparams {
    std::string arch;
    int64_t n_layer = 0, n_embd = 0, n_ff = 0;
    int64_t n_head = 0, n_head_kv = 0, head_dim = 0;
    int64_t n_ctx_train = 0;
    int64_t n_vocab = 0;  // rows of the embedding table
    float norm_eps = 0;
    float attn_scale = 0;                       // of q.k
    bool has_attn_scale = false;                // the file has the key
    float attn_softcap = 0, final_softcap = 0;  // 0 = off
    float embd_scale = 1, residual_scale = 1;   // of embeddings; of the outputs of sublayers
    float logit_scale = 1;                      // of logits
    AttnTempScaling attn_temp;
    RopeHparams rope;
    RopeHparams local_rope;  // n_rot = 0: used by no layer
    MoeHparams moe;
    std::vector<LayerHparams> layers;  // [n_layer]

    int64_t q_dim() const { return n_head * head_dim; }
    int64_t kv_dim() const { return n_head_kv * head_dim; }

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
