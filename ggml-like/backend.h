#pragma once
// The verbs of the forward pass. forward() is written once against this interface; CpuBackend runs each verb
// at once. A verb is one fused parallel phase (about one barrier). Verbs never fail and never allocate:
// shapes were checked when the model was bound, sizes when the activations were laid out. All activations are
// [n_tok, dim], row-major. When the pool's abort flag is set a verb may leave its outputs undefined.
#include <cstdint>
#include <span>

#include "ggml-like/tensor.h"

namespace tessera {

/// Positions per KV page; attention is computed in chunks of kKvChunk positions at fixed absolute boundaries,
/// so that results do not depend on how a prompt was cut.
constexpr int kKvPage = 64;
constexpr int kKvChunk = 512;
/// Float keys are stored in tiles of 16 positions, k-major, so that scores are a panel product; quantized
/// keys in packed groups of 8 positions (quants/kernels/p8.h), so that scores are an integer product.
constexpr int kKvTile = 16;
constexpr int kKvGroup = 8;

/// Types a cache may have.
constexpr Type kKvTypes[] = {Type::F32, Type::F16, Type::Q8_0, Type::Q4_0};

/// Where one layer's keys and values lie inside a page.
///   K, float:     [n_head_kv, kKvPage / kKvTile, head_dim, kKvTile]
///   K, quantized: [n_head_kv, kKvPage / kKvGroup, packed group of kKvGroup rows of head_dim]
///   V, float:     [n_head_kv, kKvPage, head_dim]
///   V, quantized: [n_head_kv, { f16 scales [head_dim / 32, kKvPage], codes [kKvPage / 2, head_dim, 2] }], as
///                 the type's blocks have them; the codes of two positions lie side by
///                 side, where they have 4 bits in one byte, the even position's in the low half
struct KvLayer {
    Type k_type = Type::F16, v_type = Type::F16;  // of kKvTypes
    size_t k_offset = 0, v_offset = 0;            // bytes from the page's start
    int64_t n_head_kv = 0;
    int64_t head_dim = 0;  // multiple of 32 for quantized types

    /// Keys of less than 8 bits, and the queries with them, are rotated so that no dimension stands out
    /// (QuaRot, arXiv 2404.00456): scores stay the same, the quantization error shrinks.
    bool rotates_keys() const { return k_type == Type::Q4_0; }
};

/// Consecutive tokens of one sequence inside a batch: rows row0 .. row0 + n_tok, positions pos0 ...
struct Segment {
    std::byte* const* pages = nullptr;  // [ceil((pos0 + n_tok) / kKvPage)], by position / kKvPage
    int64_t row0 = 0, n_tok = 0;
    int64_t pos0 = 0;
};

enum class RopeKind : uint8_t { None, Norm, Neox };

struct RopeSpec {
    RopeKind kind = RopeKind::None;
    int64_t n_rot = 0;             // elements of a head that rotate
    const double* freq = nullptr;  // [n_rot / 2] radians per position
    float magnitude = 1;           // on cosine and sine
};

/// On the gate of a feed-forward part; the formulas are VecTable's (ggml-like/cpu/vec.h).
enum class Activation : uint8_t { Silu, Gelu, ClampedSilu };

/// Products that share one input, each with its epilogue.
struct LinearOut {
    Weight w;
    Vector bias;             // [n_out] or empty
    ActBuffer* y = nullptr;  // overwritten, or added to when `add`
    float scale = 1;         // y = scale * (W x + bias)
    float softcap = 0;       // then y = softcap * tanh(y / softcap); 0 = off, and never with `add`
    bool add = false;        // y += scale * (W x + bias)
};

/// Gate and up products with their activation in one.
struct FfnGateUpArgs {
    Weight gate, up;
    Vector gate_bias, up_bias;  // [n_ff], of experts [n_expert, n_ff], or empty
    Activation activation = Activation::Silu;
    Weight shared_expert_gate =
        {};  // [1, n_embd] floats or empty: y[t] *= sigmoid(shared_expert_gate . x[t]); not of experts
};

/// Queries that grow with their position p: q *= 1 + strength ln(1 + floor(p / period)).
struct AttnTempScaling {
    double strength = 0;  // 0 = off
    int64_t period = 1;
};

/// q = Wq x, and keys and values into the cache: bias, norm of q and k, rotation, attn_temp, store.
struct QkvArgs {
    Weight wq, wk, wv;
    Vector bq, bk, bv;
    Vector q_norm, k_norm;  // [head_dim]: each head by itself; all heads' elements: the whole row; or empty
    float norm_eps = 0;
    int64_t n_head = 0;
    RopeKind rope = RopeKind::None;
    int64_t n_rot = 0;
    const ActBuffer* angles = nullptr;  // [n_tok, n_rot] (cos, sin) pairs
    AttnTempScaling attn_temp = {};
    KvLayer kv;
    ActBuffer* k_scratch = nullptr;  // [n_tok, n_head_kv * head_dim] scratch where norms are over whole rows
};

struct AttendArgs {
    KvLayer kv;
    int64_t n_head = 0;
    float scale = 1;     // on q.k
    float softcap = 0;   // 0 = off
    int64_t window = 0;  // keys with p - k < window are seen; 0 = all
    Vector sinks = {};   // [n_head] or empty: a logit of each head that takes its share of the softmax and
                         // gives no value (arXiv 2309.17453)
};

/// Weights of the experts with the largest logits: their softmax among themselves, or their share of the
/// softmax over all.
enum class RouterKind : uint8_t { SoftmaxOfChosen, ShareOfAll };

struct RouterArgs {
    Weight w;     // [n_expert, n_embd]
    Vector bias;  // [n_expert] or empty
    RouterKind kind = RouterKind::SoftmaxOfChosen;
};

/// Which experts each token takes: filled by moe_route, read by moe_gate_up and moe_down.
struct MoeRoutes {
    int64_t n_expert = 0, n_used = 0;
    int32_t* expert = nullptr;          // [n_tok, n_used] by falling weight
    float* weight = nullptr;            // [n_tok, n_used]
    int32_t* row_of_slot = nullptr;     // [n_tok, n_used] row in expert order
    int32_t* token_of_row = nullptr;    // [n_tok * n_used] token of each such row
    int32_t* expert_offset = nullptr;   // [n_expert + 1] first such row of each expert
    int32_t* active_experts = nullptr;  // [n_expert] those that a token takes, rising; n_active of them
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

    /// x[t] += rms_norm(delta[t]) * w; `delta` is used up.
    virtual void add_norm(ActBuffer& delta, const Vector& w, float eps, int64_t n_tok, ActBuffer& x) = 0;

    /// y[t] = x[t], for the architectures that have no norm before a part.
    virtual void copy(const ActBuffer& x, int64_t n_tok, ActBuffer& y) = 0;

    virtual void linear(const ActBuffer& x, int64_t n_tok, std::span<const LinearOut> outs) = 0;

    /// Of n_tok rows; what the segments have no tokens for may be anything, and goes nowhere.
    virtual void qkv(const ActBuffer& x, int64_t n_tok, const QkvArgs& args,
                     std::span<const Segment> segments, ActBuffer& q) = 0;

    /// Row i of `a` becomes its row rows[i] (rising): later verbs then work on the wanted rows alone.
    virtual void gather_rows(std::span<const int32_t> rows, ActBuffer& a) = 0;

    /// y[t, h] = softmax(scale q[t, h] . K) V over the keys the token may see, for the segments' rows among
    /// n_tok.
    virtual void attend(const ActBuffer& q, int64_t n_tok, const AttendArgs& args,
                        std::span<const Segment> segments, ActBuffer& y) = 0;

    /// y = activation(Wg x) * (Wu x).
    virtual void ffn_gate_up(const ActBuffer& x, int64_t n_tok, const FfnGateUpArgs& args, ActBuffer& y) = 0;

    /// routes from logits = W x + bias.
    virtual void moe_route(const ActBuffer& x, int64_t n_tok, const RouterArgs& args, MoeRoutes& routes) = 0;
    /// gathered = x in expert order; y[row] = activation(Wg_e x) * (Wu_e x), rows in expert order.
    virtual void moe_gate_up(const ActBuffer& x, int64_t n_tok, const MoeRoutes& routes,
                             const FfnGateUpArgs& args, ActBuffer& gathered, ActBuffer& y) = 0;
    /// out[t] += scale * sum_j weight[t, j] * (Wd_e y[slot(t, j)] + bias_e), j rising; bias [n_expert,
    /// n_embd] or empty; `rows` is scratch in expert order.
    virtual void moe_down(const ActBuffer& y, int64_t n_tok, const MoeRoutes& routes, const Weight& down,
                          const Vector& bias, float scale, ActBuffer& rows, ActBuffer& out) = 0;
};

}  // namespace tessera
