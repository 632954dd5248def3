#pragma once
// A forward pass as data: the operations of backend.h as a flat list on numbered values, for a fixed number
// of tokens of one sequence. RecordBackend derives it from forward(), Replay executes it, and ahead-of-time
// compilers read it. The only inputs of a run are token ids, their number and the position of the first.
// Holds no activations; its views of parameters are valid as long as the Model lives.
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "ggml-like/ops.h"
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
    bool needs_f32 = false, needs_int8 = false;  // as in ActBuffer
    bool skips_floats = false;                   // needs_f32 only if a reader needs them (Floats::IfRead)
    int64_t n_expert = 0;                        // > 0: the slot holds routes, and dim is n_used
    int32_t first = 0, last = 0;                 // operations of its lifetime, inclusive
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
/// In-place update: `before` and `after` share a slot. Without `before`, a write.
struct Update {
    ValueId before, after;
};
/// Overwritten with intermediate results that nothing reads later.
struct Scratch {
    ValueId value;
};

/// Tokens of a run: all, or only the last one that is not padding.
enum class Rows : uint8_t { All, Last };

/// The inputs of a run, which have no fields in the program: token ids, and positions of all rows.
struct Tokens {};
struct Positions {};

/// The operands of a program's operations by number (Ref of ggml-like/ops.h).
struct Recorded {
    using Read = record::Read;
    using Write = record::Write;
    using Update = record::Update;
    using Scratch = record::Scratch;
    using Routes = record::Read;
    using WriteRoutes = record::Write;
    using Weight = WeightId;
    using Vector = VectorId;
    using Rope = RopeId;
    using Cache = CacheId;
    using Tokens = record::Tokens;
    using Positions = record::Positions;
    using Segments = record::Rows;
    using Rows = record::Rows;
};

#define TSR_RECORDED_OP(Struct, name) using Struct = tessera::Struct<Recorded>;
TSR_OPS(TSR_RECORDED_OP)
#undef TSR_RECORDED_OP

struct Op {
    /// Layer of its parameters, or of the readers of its result if it has none; -1: no single layer.
    int32_t layer = -1;
    AnyOp<Recorded> verb;

    const char* name() const {
        return std::visit([](const auto& op) { return op_kind(op); }, verb);
    }
    /// Calls v(name, field) for each field.
    template <class Visitor>
    void fields(Visitor&& v) const {
        std::visit([&v](const auto& op) { op.fields(v, op); }, verb);
    }
    /// Calls v(name, field, neutral) for each field, with its value in an operation that does not use it.
    template <class Visitor>
    void fields_with_neutral(Visitor&& v) const {
        std::visit([&v](const auto& op) { op.fields(v, op, std::decay_t<decltype(op)>()); }, verb);
    }
    /// Calls v(input, weight, ...) for each matrix product (ggml-like/ops.h).
    template <class Visitor>
    void products(Visitor&& v) const {
        std::visit([&v](const auto& op) { each_product(op, v); }, verb);
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

/// Derives layers, lifetimes, the readers' needs, sizes and slot offsets from the operations. all_floats:
/// every value has floats, also those that only int8 kernels read.
void complete(Program& program, bool all_floats);

/// Names of the enumerators for printing.
const char* name_of(Rows rows);
const char* name_of(RopeKind kind);
const char* name_of(Activation activation);
const char* name_of(RouterKind kind);

/// A listing for people: totals, one line per operation, and the values with their lifetimes and offsets.
std::string to_text(const Program& program);

}  // namespace tessera::record
