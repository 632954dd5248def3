#pragma once
// The numbers that shape a model, read from GGUF keys and checked for range. Small structs by concern.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "ggml-like/gguf/file.h"

namespace tessera {

struct ArchSpec;

enum class RopeScaling : uint8_t { None, Linear, Yarn };

struct RopeHparams {
    int64_t n_rot = 0;  // rotated elements of a head, even
    double base = 10000;
    RopeScaling scaling = RopeScaling::None;
    double factor = 1;         // context stretched by this much
    int64_t original_ctx = 0;  // context before stretching (YaRN)
    double attn_factor = 1;    // on the magnitude
    double beta_fast = 32, beta_slow = 1;
};

struct MoeHparams {
    int64_t n_expert = 0;  // 0 = dense
    int64_t n_used = 0;
    int64_t n_ff = 0;  // of one expert
};

struct Hparams {
    std::string arch;
    int64_t n_layer = 0, n_embd = 0, n_ff = 0;
    int64_t n_head = 0, n_head_kv = 0, head_dim = 0;
    int64_t n_ctx_train = 0;
    int64_t n_vocab = 0;  // rows of the embedding table
    float norm_eps = 0;
    float attn_scale = 0;  // on q.k
    RopeHparams rope;
    MoeHparams moe;

    int64_t q_dim() const { return n_head * head_dim; }
    int64_t kv_dim() const { return n_head_kv * head_dim; }

    /// Every error names the key, what was expected and what was found.
    static Result<Hparams> load(const gguf::File& file, const ArchSpec& spec);
};

/// Radians per position of each rotated pair: base^(-2i/n_rot) / factors[i], stretched by the scaling.
/// `factors` [n_rot / 2] are the divisors of the rope_freqs tensor, or empty. *magnitude multiplies cosine
/// and sine. Sources: RoFormer (arXiv 2104.09864), YaRN (arXiv 2309.00071) section 3.
std::vector<double> rope_frequencies(const RopeHparams& rope, const float* factors, float* magnitude);

}  // namespace tessera
