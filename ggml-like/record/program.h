#pragma once
// A forward pass as data: the operations of backend.h as a flat list on numbered values, for a fixed number
// of tokens of one sequence. RecordBackend derives it from forward(), Replay executes it, and ahead-of-time
// compilers read it. The only inputs of a run are token ids, their number and the position of the first.
// Holds no activations; its views of parameters are valid as long as the Model lives.
#include <string>
#include <variant>
#include <vector>

#include "ggml-like/backend.h"
#include "ggml-like/tensor_names.h"

namespace tessera::record {

/// Index into one of Program's tables; negative: absent.
template <class Row>
struct Id {
    int32_t at = -1;
    explicit operator bool() const { return at >= 0; }
    bool operator==(const Id&) const = default;
};

/// Memory shared by a value and the values that update it in place.
struct Slot {
    std::string name;  // of the buffer in Activations
    int64_t rows = 0, dim = 0;
    bool needs_f32 = false, needs_int8 = false, is_gathered = false;  // as in ActBuffer
    int64_t n_expert = 0;         // > 0: the slot holds routes, and dim is n_used
    int32_t first = 0, last = 0;  // operations of its lifetime, inclusive
    size_t n_bytes = 0;
    size_t offset = 0;  // in the arena; slots whose lifetimes intersect do not overlap

    bool is_routes() const { return n_expert > 0; }
    /// A buffer of this shape without memory; its name refers to this slot's.
    ActBuffer act() const;
    MoeRoutes routes() const;
};

/// Result of an operation, [rows, dim of the slot]. Every value is written once.
struct Value {
    Id<Slot> slot;
    int64_t rows = 0;
    int32_t first = 0, last = 0;  // the operation that writes it, the last one that reads it
};

/// A parameter of an operation. For a matrix, `view` has its type and shape.
template <class View>
struct Param {
    TensorRows tensor;
    View view;
};

/// RoPE frequencies (RopeSpec).
struct Rope {
    RopeKind kind = RopeKind::None;
    std::vector<double> freq;  // [n_rot / 2] radians per position
    float magnitude = 1;
};

/// The KV cache of one layer: offsets in a page, and the layer group that the page belongs to.
struct Cache {
    KvLayer where;
    int32_t layer_group = 0;
};

using ValueId = Id<Value>;
using WeightId = Id<Param<Weight>>;
using VectorId = Id<Param<Vector>>;
using RopeId = Id<Rope>;
using CacheId = Id<Cache>;

/// Access of an operation to a value.
struct Read {
    ValueId value;
};
struct Write {
    ValueId value;
};
/// In-place update: `before` and `after` share a slot.
struct Update {
    ValueId before, after;
};
/// Overwritten with intermediate results that nothing reads later.
struct Scratch {
    ValueId value;
};

/// Tokens of a run: all, or only the last one that is not padding.
enum class Rows : uint8_t { All, Last };

// The operations, one struct each. fields() calls a visitor with the name and value of each field: Read,
// Write, Update, Scratch, ids, Rows, the enumerations of backend.h, and numbers with their neutral value.
// Code that walks over all fields (lifetimes, layers, printing) is such a visitor.

struct EmbedOp {
    static constexpr const char* kName = "embed";
    WeightId table;
    float scale = 1;
    Write x;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("x", x);
        v("table", table);
        v("scale", scale, 1.0f);
    }
};

struct RopeAnglesOp {
    static constexpr const char* kName = "rope_angles";
    RopeId rope;
    Write angles;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("angles", angles);
        v("rope", rope);
    }
};

struct NormOp {
    static constexpr const char* kName = "norm";
    Read x;
    VectorId w;
    float eps = 0;
    Write y;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("y", y);
        v("x", x);
        v("w", w);
        v("eps", eps, 0.0f);
    }
};

struct AddNormOp {
    static constexpr const char* kName = "add_norm";
    Read delta;  // overwritten
    VectorId w;
    float eps = 0;
    Update x;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("x", x);
        v("delta", delta);
        v("w", w);
        v("eps", eps, 0.0f);
    }
};

struct CopyOp {
    static constexpr const char* kName = "copy";
    Read x;
    Write y;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("y", y);
        v("x", x);
    }
};

/// One product; Backend::linear() may compute several that share x.
struct LinearOp {
    static constexpr const char* kName = "linear";
    Read x;
    WeightId w;
    VectorId bias;
    float scale = 1, softcap = 0;
    std::variant<Write, Update> y;  // Update: accumulated into

    template <class Visitor>
    void fields(Visitor&& v) const {
        std::visit([&v](const auto& role) { v("y", role); }, y);
        v("x", x);
        v("w", w);
        v("bias", bias);
        v("scale", scale, 1.0f);
        v("softcap", softcap, 0.0f);
    }
};

/// Computes queries, and appends keys and values of the tokens to the KV cache.
struct QkvOp {
    static constexpr const char* kName = "qkv";
    Read x, angles;
    WeightId wq, wk, wv;
    VectorId bq, bk, bv, q_norm, k_norm;
    float norm_eps = 0;
    int64_t n_head = 0, n_rot = 0;
    RopeKind rope = RopeKind::None;
    AttnTempScaling attn_temp;
    CacheId cache;
    Scratch k_scratch;
    Write q;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("q", q);
        v("k_scratch", k_scratch);
        v("x", x);
        v("cache", cache);
        v("wq", wq);
        v("wk", wk);
        v("wv", wv);
        v("bq", bq);
        v("bk", bk);
        v("bv", bv);
        v("q_norm", q_norm);
        v("k_norm", k_norm);
        v("norm_eps", norm_eps, 0.0f);
        v("n_head", n_head, int64_t{0});
        v("rope", rope);
        v("n_rot", n_rot, int64_t{0});
        v("angles", angles);
        v("attn_temp_strength", attn_temp.strength, 0.0);
        v("attn_temp_period", attn_temp.period, int64_t{1});
    }
};

/// Compacts to the row of Rows::Last.
struct GatherRowsOp {
    static constexpr const char* kName = "gather_rows";
    Update a;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("a", a);
    }
};

struct AttendOp {
    static constexpr const char* kName = "attend";
    Read q;
    CacheId cache;
    int64_t n_head = 0;
    float scale = 1, softcap = 0;
    int64_t window = 0;
    VectorId sinks;
    Rows rows = Rows::All;
    Write y;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("y", y);
        v("q", q);
        v("cache", cache);
        v("n_head", n_head, int64_t{0});
        v("scale", scale, 1.0f);
        v("softcap", softcap, 0.0f);
        v("window", window, int64_t{0});
        v("sinks", sinks);
        v("rows", rows);
    }
};

struct FfnGateUpOp {
    static constexpr const char* kName = "ffn_gate_up";
    Read x;
    WeightId gate, up, shared_expert_gate;
    VectorId gate_bias, up_bias;
    Activation activation = Activation::Silu;
    Write y;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("y", y);
        v("x", x);
        v("gate", gate);
        v("up", up);
        v("gate_bias", gate_bias);
        v("up_bias", up_bias);
        v("activation", activation);
        v("shared_expert_gate", shared_expert_gate);
    }
};

struct MoeRouteOp {
    static constexpr const char* kName = "moe_route";
    Read x;
    WeightId w;
    VectorId bias;
    RouterKind kind = RouterKind::SoftmaxOverSelected;
    Write routes;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("routes", routes);
        v("x", x);
        v("w", w);
        v("bias", bias);
        v("kind", kind);
    }
};

struct MoeGateUpOp {
    static constexpr const char* kName = "moe_gate_up";
    Read x, routes;
    WeightId gate, up;
    VectorId gate_bias, up_bias;
    Activation activation = Activation::Silu;
    Scratch gathered;
    Write y;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("y", y);
        v("gathered", gathered);
        v("x", x);
        v("routes", routes);
        v("gate", gate);
        v("up", up);
        v("gate_bias", gate_bias);
        v("up_bias", up_bias);
        v("activation", activation);
    }
};

struct MoeDownOp {
    static constexpr const char* kName = "moe_down";
    Read y, routes;
    WeightId down;
    VectorId bias;
    float scale = 1;
    Scratch rows;
    Update out;

    template <class Visitor>
    void fields(Visitor&& v) const {
        v("out", out);
        v("rows", rows);
        v("y", y);
        v("routes", routes);
        v("down", down);
        v("bias", bias);
        v("scale", scale, 1.0f);
    }
};

struct Op {
    /// Layer of its parameters, or of the readers of its result if it has none; -1: no single layer.
    int32_t layer = -1;
    std::variant<EmbedOp, RopeAnglesOp, NormOp, AddNormOp, CopyOp, LinearOp, QkvOp, GatherRowsOp, AttendOp,
                 FfnGateUpOp, MoeRouteOp, MoeGateUpOp, MoeDownOp>
        verb;

    const char* name() const {
        return std::visit([](const auto& op) { return op.kName; }, verb);
    }
    template <class Visitor>
    void fields(Visitor&& v) const {
        std::visit([&v](const auto& op) { op.fields(v); }, verb);
    }
};

struct Program {
    int64_t n_tok = 0;           // of a run; fewer tokens are padded
    int32_t n_layer_groups = 1;  // of the KV cache
    std::vector<Op> ops;         // in order of execution
    std::vector<Value> values;
    std::vector<Slot> slots;
    std::vector<Param<Weight>> weights;
    std::vector<Param<Vector>> vectors;
    std::vector<Rope> ropes;
    std::vector<Cache> caches;  // one per qkv, in order
    ValueId output;             // result of a run; absent if it only fills the KV cache
    size_t arena_bytes = 0;     // memory of all slots
    size_t least_bytes = 0;     // lower bound: the most that is alive during one operation

    const Value& operator[](ValueId id) const { return values[static_cast<size_t>(id.at)]; }
    const Slot& operator[](Id<Slot> id) const { return slots[static_cast<size_t>(id.at)]; }
    const Param<Weight>& operator[](WeightId id) const { return weights[static_cast<size_t>(id.at)]; }
    const Param<Vector>& operator[](VectorId id) const { return vectors[static_cast<size_t>(id.at)]; }
    const Rope& operator[](RopeId id) const { return ropes[static_cast<size_t>(id.at)]; }
    const Cache& operator[](CacheId id) const { return caches[static_cast<size_t>(id.at)]; }
};

/// Derives layers, lifetimes, sizes and slot offsets from the operations.
void complete(Program& program);

/// Names of the enumerators for printing.
const char* name_of(Rows rows);
const char* name_of(RopeKind kind);
const char* name_of(Activation activation);
const char* name_of(RouterKind kind);

/// A listing for people: totals, one line per operation, and the values with their lifetimes and offsets.
std::string to_text(const Program& program);

}  // namespace tessera::record
