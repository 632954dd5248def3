#pragma once
// What a device computes of a forward pass: single operations on named values, each of which gets an encoding
// of its own. Made of a recorded program (lower.h), whose verbs fuse several of them. The same graph runs in
// floats (float_run.h), for the ranges of its values, and in the device's integers.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ggml-like/record/program.h"
#include "src/npu/elementwise.h"

namespace tessera::npu {

/// A result, [rows, dim].
struct GraphValue {
    std::string name;        ///< "blk.0.gate", "logits"; one of its kind in the graph
    int32_t slot = 0;        ///< memory, shared with values that are never needed at once
    int64_t rows = 0;        ///< of a pass
    int64_t dim = 0;         ///< scores and probabilities: n_head * n_ctx
    bool is_last = false;    ///< its one row is that of the last token which is no padding
    bool is_cached = false;  ///< keys or values as the cache has them: 8 bits around 128
};
using GraphValueId = record::Id<GraphValue>;

/// y = scale * (W x + bias).
struct LinearNode {
    GraphValueId x;
    record::WeightId w;
    record::VectorId bias;
    float scale = 1;
    GraphValueId y;
};
/// Each piece of a row that is as long as w by itself: y = x / rms(x) * w.
struct NormNode {
    GraphValueId x;
    record::VectorId w;
    float eps = 0;
    GraphValueId y;
};
/// Rotates each head by its row's position.
struct RopeNode {
    GraphValueId x;
    record::RopeId rope;
    RopeKind kind = RopeKind::None;
    int64_t head_dim = 0;
    GraphValueId y;
};
/// Rows that are no padding become the cache's at their positions. Comes before what attends to them.
struct AppendNode {
    GraphValueId k, v;
    record::CacheId cache;
};
/// y[row, head, position] = scale * q . k of the positions that the row sees.
struct ScoresNode {
    GraphValueId q;
    record::CacheId cache;
    int64_t n_head = 0, window = 0;  // keys with p - k < window are seen; 0 = all
    float scale = 1;
    GraphValueId y;
};
struct SoftmaxNode {
    GraphValueId x;
    int64_t n_head = 0, window = 0;
    GraphValueId y;  // has the slot of x
};
/// y[row, head] = sum of p v.
struct WeighNode {
    GraphValueId p;
    record::CacheId cache;
    int64_t n_head = 0, window = 0;
    GraphValueId y;
};
struct FunctionNode {
    GraphValueId x;
    Function function = Function::Silu;
    GraphValueId y;
};
struct MulNode {
    GraphValueId a, b, y;
};
struct AddNode {
    GraphValueId a, b, y;
};
/// The row of the last token that is no padding; has the encoding of x.
struct LastRowNode {
    GraphValueId x, y;
};

using Node = std::variant<LinearNode, NormNode, RopeNode, AppendNode, ScoresNode, SoftmaxNode, WeighNode,
                          FunctionNode, MulNode, AddNode, LastRowNode>;

struct Graph {
    const record::Program* program = nullptr;  ///< has the parameters; outlives the graph
    int64_t n_ctx = 0;                         ///< positions of the caches
    std::vector<GraphValue> values;
    std::vector<Node> nodes;  ///< in the order in which they run
    int32_t n_slots = 0;
    /// What is given to it and what it is for, as the range's values: of a whole program the embeddings, and
    /// the logits.
    std::vector<GraphValueId> inputs, outputs;

    const GraphValue& operator[](GraphValueId id) const { return values[static_cast<size_t>(id.at)]; }
};

/// What one run of a graph covers.
struct Pass {
    int64_t n_valid = 0;  ///< rows that are no padding, 1 to the program's n_tok
    int64_t n_past = 0;   ///< position of the first row

    int64_t position(const GraphValue& value, int64_t row) const {
        return n_past + (value.is_last ? n_valid - 1 : row);
    }
    /// First of the positions up to its own that a row sees.
    static int64_t first_seen(int64_t position, int64_t window) {
        return window > 0 && position >= window ? position - window + 1 : 0;
    }
    /// Rows of a value that are no padding.
    int64_t rows(const GraphValue& value) const { return value.is_last ? 1 : n_valid; }
};

}  // namespace tessera::npu
