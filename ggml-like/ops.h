#pragma once
// The operations of the forward pass as data, one struct each. An operation is one fused parallel region of
// the CPU (about one barrier). A struct is a template on the way it refers to its operands: Direct (below)
// has pointers and is executed by a Backend, record::Recorded (record/program.h) has numbers and is part of a
// program. A new operation is its struct and its row in TSR_OPS here, its code in cpu/, and its call in
// src/forward.
//
// Each struct describes itself, and recorders, observers, memory plans and listings derive from that:
//   fields(v, op...)  calls v(name, field...) for each field, of one operation or of several side by side
//   shapes(v)         calls v(buffer, rows, dim) or v(buffer, rows, dim, Floats::IfRead) for each buffer that
//                     a Direct operation writes
//   products(v)       calls v(input, weight), v(input, weight, routes) for inputs in expert order, or
//                     v(input, weight, routes, gathered) for inputs in token order that the operation
//                     gathers, for each matrix product; absent without products (each_product)
//   is_valid()        whether the operation has the epilogues of its products; absent if it has any
//   overwrites()      whether an Update is a plain write; absent if it never is
#include <string>
#include <variant>

#include "ggml-like/op_types.h"

namespace tessera {

/// Tokens that an operation computes: rows of its activations.
struct RowCount {
    int64_t n = 0;
    constexpr RowCount(int64_t rows = 0) : n(rows) {}
    constexpr operator int64_t() const { return n; }
};

/// The name of a field: "w", or "gate.w" for a field of a product.
struct FieldName {
    const char* part = "";
    const char* name = "";
    constexpr FieldName(const char* field) : name(field) {}
    constexpr FieldName(const char* product, const char* field) : part(product), name(field) {}
    std::string text() const { return *part ? std::string(part) + "." + name : name; }
};

/// Operands by reference: what a Backend executes. Reads and writes are buffers; nothing is owned.
struct Direct {
    using Read = const ActBuffer*;
    using Write = ActBuffer*;
    using Update = ActBuffer*;   // read and overwritten in place
    using Scratch = ActBuffer*;  // overwritten with intermediate results
    using Routes = const MoeRoutes*;
    using WriteRoutes = MoeRoutes*;
    using Weight = tessera::Weight;
    using Vector = tessera::Vector;
    using Rope = RopeSpec;
    using Cache = KvLayer;
    using Tokens = std::span<const int32_t>;
    using Positions = std::span<const Segment>;  // every row of the pass
    using Segments = std::span<const Segment>;   // rows in no segment may hold anything
    using Rows = std::span<const int32_t>;
};

/// A matrix product with its epilogue: z = scale * activation(W x + bias), z = softcap * tanh(z / softcap),
/// and y = z, or y += z if `add`.
template <class Ref>
struct Product {
    typename Ref::Weight w = {};
    typename Ref::Vector bias = {};  // [n_out], for experts [n_expert, n_out], or empty
    Activation activation = Activation::None;
    float scale = 1;
    float softcap = 0;  // 0 = off; not together with `add`
    bool add = false;

    /// Whether the epilogue is at most a bias and an activation.
    bool is_unscaled() const { return scale == 1 && softcap == 0 && !add; }

    /// The fields as those of the part `name` of an operation; "" for its only product.
    template <class V, class... Self>
    static void fields(const char* name, V&& v, Self&&... p) {
        v(FieldName(name, "w"), p.w...);
        v(FieldName(name, "bias"), p.bias...);
        v(FieldName(name, "activation"), p.activation...);
        v(FieldName(name, "scale"), p.scale...);
        v(FieldName(name, "softcap"), p.softcap...);
        v(FieldName(name, "add"), p.add...);
    }
};

/// x[t] = scale * table[tokens[t]].
template <class Ref>
struct EmbedOp {
    typename Ref::Weight table = {};
    typename Ref::Tokens tokens = {};
    float scale = 1;
    typename Ref::Write x = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("x", op.x...);
        v("table", op.table...);
        v("tokens", op.tokens...);
        v("scale", op.scale...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(x, std::ssize(tokens), table.n_in);
    }
};

/// angles[t, i] = magnitude * (cos, sin)(pos_t * freq[i]).
template <class Ref>
struct RopeAnglesOp {
    typename Ref::Rope rope = {};
    RowCount n_tok = {};
    typename Ref::Positions positions = {};
    typename Ref::Write angles = {};  // [n_tok, n_rot] (cos, sin) pairs

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("angles", op.angles...);
        v("rope", op.rope...);
        v("n_tok", op.n_tok...);
        v("positions", op.positions...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(angles, n_tok, rope.n_rot);
    }
};

/// y[t] = rms_norm(x[t]) * w.
template <class Ref>
struct NormOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    typename Ref::Vector w = {};
    float eps = 0;
    typename Ref::Write y = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        v("w", op.w...);
        v("eps", op.eps...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, x->dim);
    }
};

/// y[t] = (x[t] - mean(x[t])) / sqrt(variance(x[t]) + eps) * w + bias (arXiv 1607.06450).
template <class Ref>
struct LayerNormOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    typename Ref::Vector w = {}, bias = {};  // bias may be empty
    float eps = 0;
    typename Ref::Write y = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        v("w", op.w...);
        v("bias", op.bias...);
        v("eps", op.eps...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, x->dim);
    }
};

/// x[t] += rms_norm(delta[t]) * w; overwrites `delta`.
template <class Ref>
struct AddNormOp {
    typename Ref::Read delta = {};
    RowCount n_tok = {};
    typename Ref::Vector w = {};
    float eps = 0;
    typename Ref::Update x = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("x", op.x...);
        v("delta", op.delta...);
        v("n_tok", op.n_tok...);
        v("w", op.w...);
        v("eps", op.eps...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(x, n_tok, x->dim);
    }
};

/// y[t] = x[t], for architectures without a pre-norm.
template <class Ref>
struct CopyOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    typename Ref::Write y = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, x->dim);
    }
};

/// One product with its epilogue.
template <class Ref>
struct LinearOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    Product<Ref> product = {};
    typename Ref::Update y = {};  // overwritten unless product.add

    bool is_valid() const { return !product.add || product.softcap == 0; }
    bool overwrites() const { return !product.add; }

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        Product<Ref>::fields("", v, op.product...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, product.w.n_out);
    }
    template <class V>
    void products(V&& v) const {
        v(x, product.w);
    }
};

/// Computes queries, and appends the keys and values of the segments' tokens to the KV cache. Fuses bias,
/// QK-norm, RoPE, temperature scaling and the store.
template <class Ref>
struct QkvOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    Product<Ref> q = {}, k = {}, v = {};
    typename Ref::Vector q_norm = {}, k_norm = {};  // [k_dim]: per head; [n_heads * k_dim]: over the
                                                    // whole row; or empty
    float norm_eps = 0;
    int64_t n_head = 0;
    RopeKind rope = RopeKind::None;
    int64_t n_rot = 0;
    typename Ref::Read angles = {};  // [n_tok, n_rot] (cos, sin) pairs; null without RoPE
    AttnTempScaling attn_temp = {};
    typename Ref::Cache cache = {};
    typename Ref::Segments segments = {};
    typename Ref::Scratch k_scratch = {};  // [n_tok, n_head_kv * k_dim] if norms_whole_rows(), else null
    typename Ref::Write queries = {};      // [n_tok, n_head * k_dim]

    bool is_valid() const { return !q.add && !k.add && !v.add; }
    /// Whether a norm covers whole rows, so that all heads of a row are computed before it.
    bool norms_whole_rows() const { return q_norm.n > cache.k_dim || k_norm.n > cache.k_dim; }

    template <class V, class... Self>
    static void fields(V&& visit, Self&&... op) {
        visit("k_scratch", op.k_scratch...);
        visit("queries", op.queries...);
        visit("x", op.x...);
        visit("n_tok", op.n_tok...);
        visit("cache", op.cache...);
        visit("segments", op.segments...);
        Product<Ref>::fields("q", visit, op.q...);
        Product<Ref>::fields("k", visit, op.k...);
        Product<Ref>::fields("v", visit, op.v...);
        visit("q_norm", op.q_norm...);
        visit("k_norm", op.k_norm...);
        visit("norm_eps", op.norm_eps...);
        visit("n_head", op.n_head...);
        visit("rope", op.rope...);
        visit("n_rot", op.n_rot...);
        visit("angles", op.angles...);
        visit("attn_temp_strength", op.attn_temp.strength...);
        visit("attn_temp_period", op.attn_temp.period...);
    }
    template <class V>
    void shapes(V&& visit) const {
        if (k_scratch) visit(k_scratch, n_tok, k.w.n_out);
        visit(queries, n_tok, q.w.n_out);
    }
    template <class V>
    void products(V&& visit) const {
        visit(x, q.w);
        visit(x, k.w);
        visit(x, v.w);
    }
};

/// a[i] = a[rows[i]], `rows` ascending: compacts `a` to the rows whose outputs are needed.
template <class Ref>
struct GatherRowsOp {
    typename Ref::Rows rows = {};
    typename Ref::Update a = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("a", op.a...);
        v("rows", op.rows...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(a, std::ssize(rows), a->dim);
    }
};

/// y[t, h] = softmax(scale q[t, h] . K) V over the keys visible to token t, for the rows of the segments;
/// n_tok is the number of rows of q.
template <class Ref>
struct AttendOp {
    typename Ref::Read q = {};
    RowCount n_tok = {};
    typename Ref::Cache cache = {};
    typename Ref::Segments segments = {};
    int64_t n_head = 0;
    float scale = 1;                  // of q.k
    float softcap = 0;                // 0 = off
    int64_t window = 0;               // keys k with p - k < window are visible at position p; 0 = all
    typename Ref::Vector sinks = {};  // [n_head] or empty: attention sinks, a logit per head that takes part
                                      // in the softmax and has no value (arXiv 2309.17453)
    typename Ref::Write y = {};

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("q", op.q...);
        v("n_tok", op.n_tok...);
        v("cache", op.cache...);
        v("segments", op.segments...);
        v("n_head", op.n_head...);
        v("scale", op.scale...);
        v("softcap", op.softcap...);
        v("window", op.window...);
        v("sinks", op.sinks...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, n_head * cache.v_dim);
    }
};

/// y = gate.activation(Wg x) * (Wu x), each with its bias.
template <class Ref>
struct FfnGateUpOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    Product<Ref> gate = {}, up = {};
    typename Ref::Weight shared_expert_gate = {};  // [1, n_embd] floats or empty: y[t] *= sigmoid(
                                                   // shared_expert_gate . x[t])
    typename Ref::Write y = {};

    bool is_valid() const {
        return gate.is_unscaled() && up.is_unscaled() && up.activation == Activation::None;
    }

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        Product<Ref>::fields("gate", v, op.gate...);
        Product<Ref>::fields("up", v, op.up...);
        v("shared_expert_gate", op.shared_expert_gate...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(y, n_tok, gate.w.n_out, Floats::IfRead);
    }
    template <class V>
    void products(V&& v) const {
        v(x, gate.w);
        v(x, up.w);
        if (shared_expert_gate) v(x, shared_expert_gate);
    }
};

/// Chooses the experts of each token by the logits W x + bias, and fills `routes`.
template <class Ref>
struct MoeRouteOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    Product<Ref> router = {};  // [n_expert, n_embd]
    RouterKind kind = RouterKind::SoftmaxOverSelected;
    typename Ref::WriteRoutes routes = {};

    bool is_valid() const { return !router.add; }

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("routes", op.routes...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        Product<Ref>::fields("router", v, op.router...);
        v("kind", op.kind...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(routes, n_tok, routes->n_used);
    }
    template <class V>
    void products(V&& v) const {
        v(x, router.w);
    }
};

/// gathered = x in expert order; y[row] = gate.activation(Wg_e x) * (Wu_e x), each with its bias, also in
/// expert order.
template <class Ref>
struct MoeGateUpOp {
    typename Ref::Read x = {};
    RowCount n_tok = {};
    typename Ref::Routes routes = {};
    Product<Ref> gate = {}, up = {};  // stacks of n_expert
    typename Ref::Scratch gathered = {};
    typename Ref::Write y = {};

    bool is_valid() const {
        return gate.is_unscaled() && up.is_unscaled() && up.activation == Activation::None;
    }

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("gathered", op.gathered...);
        v("y", op.y...);
        v("x", op.x...);
        v("n_tok", op.n_tok...);
        v("routes", op.routes...);
        Product<Ref>::fields("gate", v, op.gate...);
        Product<Ref>::fields("up", v, op.up...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(gathered, n_tok * routes->n_used, x->dim, Floats::IfRead);
        v(y, n_tok * routes->n_used, gate.w.n_out, Floats::IfRead);
    }
    template <class V>
    void products(V&& v) const {
        v(x, gate.w, routes, gathered);
        v(x, up.w, routes, gathered);
    }
};

/// out[t] = sum_j weight[t, j] * (Wd_e y[row_of_slot[t, j]] + bias_e), accumulated by ascending j; times
/// down.scale, and added to out[t] if down.add. `rows` is scratch in expert order.
template <class Ref>
struct MoeDownOp {
    typename Ref::Read y = {};
    RowCount n_tok = {};
    typename Ref::Routes routes = {};
    Product<Ref> down = {};  // a stack of n_expert
    typename Ref::Scratch rows = {};
    typename Ref::Update out = {};  // overwritten unless down.add

    bool is_valid() const { return down.activation == Activation::None && down.softcap == 0; }
    bool overwrites() const { return !down.add; }

    template <class V, class... Self>
    static void fields(V&& v, Self&&... op) {
        v("rows", op.rows...);
        v("out", op.out...);
        v("y", op.y...);
        v("n_tok", op.n_tok...);
        v("routes", op.routes...);
        Product<Ref>::fields("down", v, op.down...);
    }
    template <class V>
    void shapes(V&& v) const {
        v(rows, n_tok * routes->n_used, down.w.n_out);
        v(out, n_tok, down.w.n_out);
    }
    template <class V>
    void products(V&& v) const {
        v(y, down.w, routes);
    }
};

/// X(Struct, name) for every operation, in the order of the forward pass.
#define TSR_OPS(X)               \
    X(EmbedOp, embed)            \
    X(RopeAnglesOp, rope_angles) \
    X(NormOp, norm)              \
    X(LayerNormOp, layer_norm)   \
    X(AddNormOp, add_norm)       \
    X(CopyOp, copy)              \
    X(LinearOp, linear)          \
    X(QkvOp, qkv)                \
    X(GatherRowsOp, gather_rows) \
    X(AttendOp, attend)          \
    X(FfnGateUpOp, ffn_gate_up)  \
    X(MoeRouteOp, moe_route)     \
    X(MoeGateUpOp, moe_gate_up)  \
    X(MoeDownOp, moe_down)

/// Any operation.
template <class Ref>
using AnyOp = std::variant<EmbedOp<Ref>, RopeAnglesOp<Ref>, NormOp<Ref>, LayerNormOp<Ref>, AddNormOp<Ref>,
                           CopyOp<Ref>, LinearOp<Ref>, QkvOp<Ref>, GatherRowsOp<Ref>, AttendOp<Ref>,
                           FfnGateUpOp<Ref>, MoeRouteOp<Ref>, MoeGateUpOp<Ref>, MoeDownOp<Ref>>;

/// Calls v for each matrix product of an operation (products()).
template <class AnyStruct, class V>
void each_product(const AnyStruct& op, V&& v) {
    if constexpr (requires { op.products(v); }) op.products(v);
}

/// "norm", "qkv", ...: the name of an operation's struct in listings.
#define TSR_OP_NAME(Struct, name)                       \
    template <class Ref>                                \
    constexpr const char* op_kind(const Struct<Ref>&) { \
        return #name;                                   \
    }
TSR_OPS(TSR_OP_NAME)
#undef TSR_OP_NAME

}  // namespace tessera
