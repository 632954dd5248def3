#pragma once
// The operations of the forward pass. forward() is written once against this interface; CpuBackend executes
// each operation immediately. An operation is one fused parallel region (about one barrier). Operations never
// fail and never allocate: shapes are checked when the model is bound, sizes when the activations are laid
// out. All activations are [n_tok, dim], row-major. When the pool's abort flag is set, an operation may leave
// its outputs undefined.
#include <cstdint>
#include <span>

#include "ggml-like/tensor.h"

namespace tessera {

/// Positions per KV page; attention is computed in chunks of kKvChunk positions at fixed absolute boundaries,
/// so that results do not depend on how a prompt is split into chunks.
constexpr int kKvPage = 64;
constexpr int kKvChunk = 512;
/// Float keys are stored in tiles of 16 positions, k-major, so that scores are a panel product; quantized
/// keys in packed groups of 8 positions (quants/kernels/packed.h), so that scores are an integer product.
constexpr int kKvTile = 16;
constexpr int kKvGroup = 8;

/// The largest head: keys of 512 latent and 64 rotated elements (MLA, arXiv 2405.04434).
constexpr int64_t kMaxHeadDim = 576;

/// Types that the KV cache supports.
constexpr Type kKvTypes[] = {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0};

/// Where one layer's keys and values lie inside a page.
///   K, float:     [n_head_kv, kKvPage / kKvTile, k_dim, kKvTile]
///   K, quantized: [n_head_kv, kKvPage / kKvGroup, packed group of kKvGroup rows of k_dim]
///   V, float:     [n_head_kv, kKvPage, v_dim]
///   V, quantized: [n_head_kv, { f16 scales [v_dim / 32, kKvPage], codes [kKvPage / 2, v_dim, 2] }],
///                 scales and codes as in the type's blocks; the codes of two positions are adjacent, 4-bit
///                 codes in one byte with the even position in the low half
struct KvLayer {
    Type k_type = Type::F16, v_type = Type::F16;  // of kKvTypes
    size_t k_offset = 0, v_offset = 0;            // bytes from the start of the page
    int64_t n_head_kv = 0;
    int64_t k_dim = 0, v_dim = 0;  // elements of a head; multiples of 16, of 32 for quantized types

    /// Keys of fewer than 8 bits and their queries are rotated, which spreads outliers over all dimensions
    /// (QuaRot, arXiv 2404.00456): the scores are the same and the quantization error is smaller.
    bool rotates_keys() const { return k_type == Type::Q4_0; }
};

/// Where one recurrent layer's state lies inside a sequence's slot of state.
struct StateLayer {
    size_t offset = 0;  // floats from the start of the slot, a multiple of a cache line
    int64_t n = 0;      // floats; 0 = the layer has no state
};

/// Consecutive tokens of one sequence in a batch: rows row0 .. row0 + n_tok at positions pos0 .. pos0 +
/// n_tok.
struct Segment {
    std::byte* const* pages = nullptr;  // [ceil((pos0 + n_tok) / kKvPage)], indexed by position / kKvPage
    int64_t row0 = 0, n_tok = 0;
    int64_t pos0 = 0;
    /// Slots of state before the first token and after the last; null if the model has no recurrent layers.
    /// An operation reads its StateLayer of state_in and fills that of state_out, which may hold anything
    /// before. So a pass that is aborted, or repeated, changes no state.
    const float* state_in = nullptr;
    float* state_out = nullptr;
};

enum class RopeKind : uint8_t { None, Norm, Neox };

struct RopeSpec {
    RopeKind kind = RopeKind::None;
    int64_t n_rot = 0;             // elements of a head that are rotated
    const double* freq = nullptr;  // [n_rot / 2] radians per position
    float magnitude = 1;           // factor of cosine and sine
};

/// Activation function of the gate of a feed-forward sublayer; ggml-like/cpu/vec.h has the formulas.
enum class Activation : uint8_t { Silu, Gelu, ClampedSilu };

/// One of several products that share an input, with its epilogue.
struct LinearOut {
    Weight w;
    Vector bias;             // [n_out] or empty
    ActBuffer* y = nullptr;  // overwritten, or accumulated into if `add`
    float scale = 1;         // y = scale * (W x + bias)
    float softcap = 0;       // then y = softcap * tanh(y / softcap); 0 = off; not together with `add`
    bool add = false;        // y += scale * (W x + bias)
};

/// Gate and up projections fused with the activation function.
struct FfnGateUpArgs {
    Weight gate, up;
    Vector gate_bias, up_bias;  // [n_ff], for experts [n_expert, n_ff], or empty
    Activation activation = Activation::Silu;
    Weight shared_expert_gate = {};  // [1, n_embd] floats or empty: y[t] *= sigmoid(shared_expert_gate .
                                     // x[t]); not for routed experts
};

/// Attention temperature scaling by the position p of a query: q *= 1 + strength ln(1 + floor(p / period)).
struct AttnTempScaling {
    double strength = 0;  // 0 = off
    int64_t period = 1;
};

/// q = Wq x; keys and values are appended to the KV cache. Fuses bias, QK-norm, RoPE, temperature scaling and
/// the store.
struct QkvArgs {
    Weight wq, wk, wv;
    Vector bq, bk, bv;
    Vector q_norm, k_norm;  // [k_dim]: per head; [n_heads * head_dim]: over the whole row; or empty
    float norm_eps = 0;
    int64_t n_head = 0;
    RopeKind rope = RopeKind::None;
    int64_t n_rot = 0;
    const ActBuffer* angles = nullptr;  // [n_tok, n_rot] (cos, sin) pairs
    AttnTempScaling attn_temp = {};
    KvLayer kv;
    ActBuffer* k_scratch = nullptr;  // [n_tok, n_head_kv * k_dim] scratch for QK-norm over whole rows
};

struct AttendArgs {
    KvLayer kv;
    int64_t n_head = 0;
    float scale = 1;     // of q.k
    float softcap = 0;   // 0 = off
    int64_t window = 0;  // keys k with p - k < window are visible at position p; 0 = all
    Vector sinks = {};  // [n_head] or empty: attention sinks, a logit per head that takes part in the softmax
                        // and has no value (arXiv 2309.17453)
};

/// Weights of the selected experts, which are those with the largest logits: the softmax over these logits,
/// or their values in the softmax over all experts.
enum class RouterKind : uint8_t { SoftmaxOverSelected, SoftmaxOverAll };

struct RouterArgs {
    Weight w;     // [n_expert, n_embd]
    Vector bias;  // [n_expert] or empty
    RouterKind kind = RouterKind::SoftmaxOverSelected;
};

/// The experts of each token, filled by moe_route and used by moe_gate_up and moe_down. "Expert order" groups
/// the n_tok * n_used rows by expert.
struct MoeRoutes {
    int64_t n_expert = 0, n_used = 0;
    int32_t* expert = nullptr;         // [n_tok, n_used] by descending weight
    float* weight = nullptr;           // [n_tok, n_used]
    int32_t* row_of_slot = nullptr;    // [n_tok, n_used] row in expert order
    int32_t* token_of_row = nullptr;   // [n_tok * n_used] token of each row in expert order
    int32_t* expert_offset = nullptr;  // [n_expert + 1] first row of each expert
    int32_t* active_experts =
        nullptr;  // [n_expert] the first n_active are the experts that some token takes, ascending
    int64_t n_active = 0;
};

class Backend {
  public:
    virtual ~Backend() = default;

    /// x[t] = scale * table[tokens[t]].
    virtual void embed(const Weight& table, std::span<const int32_t> tokens, float scale, ActBuffer& x) = 0;

    /// angles[t, i] = magnitude * (cos, sin)(pos_t * freq[i]).
    virtual void rope_angles(const RopeSpec& rope, std::span<const Segment> segments, ActBuffer& angles) = 0;

    /// y[t] = rms_norm(x[t]) * w.
    virtual void norm(const ActBuffer& x, const Vector& w, float eps, int64_t n_tok, ActBuffer& y) = 0;

    /// x[t] += rms_norm(delta[t]) * w; overwrites `delta`.
    virtual void add_norm(ActBuffer& delta, const Vector& w, float eps, int64_t n_tok, ActBuffer& x) = 0;

    /// y[t] = x[t], for architectures without a pre-norm.
    virtual void copy(const ActBuffer& x, int64_t n_tok, ActBuffer& y) = 0;

    /// Each of the products y = W x with its epilogue.
    virtual void linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) = 0;

    /// Rows of the n_tok that belong to no segment may hold anything; they are not stored in the cache.
    virtual void qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args,
                     std::span<const Segment> segments, ActBuffer& q) = 0;

    /// a[i] = a[rows[i]], `rows` ascending: compacts `a` to the rows whose outputs are needed.
    virtual void gather_rows(std::span<const int32_t> rows, ActBuffer& a) = 0;

    /// y[t, h] = softmax(scale q[t, h] . K) V over the keys visible to token t, for the rows of the segments;
    /// n_tok is the number of rows of q.
    virtual void attend(const ActBuffer& q, int64_t n_tok, const AttendArgs& args,
                        std::span<const Segment> segments, ActBuffer& y) = 0;

    /// y = activation(Wg x) * (Wu x).
    virtual void ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) = 0;

    /// Fills `routes` from the logits W x + bias.
    virtual void moe_route(const ActBuffer& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) = 0;
    /// gathered = x in expert order; y[row] = activation(Wg_e x) * (Wu_e x), also in expert order.
    virtual void moe_gate_up(const ActBuffer& x, int64_t n_tok, const MoeRoutes& routes,
                             const FfnGateUpArgs& args, ActBuffer& gathered, ActBuffer& y) = 0;
    /// out[t] += scale * sum_j weight[t, j] * (Wd_e y[row_of_slot[t, j]] + bias_e), accumulated by ascending
    /// j. bias is [n_expert, n_embd] or empty; `rows` is scratch in expert order.
    virtual void moe_down(const ActBuffer& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                          const Vector& bias, float scale, ActBuffer& rows, ActBuffer& out) = 0;
};

}  // namespace tessera
