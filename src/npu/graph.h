#pragma once
// The part of a forward pass that a device computes: single operations on named values, each with its own
// encoding. lower.h makes it from a recorded program, whose operations fuse several steps. The same graph
// runs in float (float_run.h), to find the ranges of its values, and in the device's integers.
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "ggml-like/record/program.h"
#include "src/npu/elementwise.h"

namespace tessera::npu {

/// A result, [rows, dim].
struct GraphValue {
    std::string name;        ///< "blk.0.gate", "logits"; unique in the graph
    int32_t slot = 0;        ///< memory slot, shared by values with disjoint lifetimes
    int64_t rows = 0;        ///< of a pass
    int64_t dim = 0;         ///< scores and probabilities: n_head * n_ctx
    bool is_last = false;    ///< it has one row, that of the last token that is not padding
    bool is_cached = false;  ///< keys or values in the cache's encoding: 8 bits with zero = 128
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
/// y = x / rms(x) * w, separately for each part of a row that is as long as w.
struct NormNode {
    GraphValueId x;
    record::VectorId w;
    float eps = 0;
    GraphValueId y;
};
/// Rotates each head by the position of its row.
struct RopeNode {
    GraphValueId x;
    record::RopeId rope;
    RopeKind kind = RopeKind::None;
    int64_t head_dim = 0;
    GraphValueId y;
};
/// Writes the rows that are not padding into the cache at their positions. Precedes the nodes that attend to
/// them.
struct AppendNode {
    GraphValueId k, v;
    record::CacheId cache;
};
/// y[row, head, position] = scale * q . k for the positions visible to the row.
struct ScoresNode {
    GraphValueId q;
    record::CacheId cache;
    int64_t n_head = 0, window = 0;  // keys with p - k < window are visible; 0 = all
    float scale = 1;
    GraphValueId y;
};
struct SoftmaxNode {
    GraphValueId x;
    int64_t n_head = 0, window = 0;
    GraphValueId y;  // in the slot of x
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
/// The row of the last token that is not padding, in the encoding of x.
struct LastRowNode {
    GraphValueId x, y;
};

using Node = std::variant<LinearNode, NormNode, RopeNode, AppendNode, ScoresNode, SoftmaxNode, WeighNode,
                          FunctionNode, MulNode, AddNode, LastRowNode>;

struct Graph {
    const record::Program* program = nullptr;  ///< owns the parameters; must outlive the graph
    int64_t n_ctx = 0;                         ///< positions of the caches
    std::vector<GraphValue> values;
    std::vector<Node> nodes;  ///< in execution order
    int32_t n_slots = 0;
    /// Inputs and outputs of the graph; of a whole program the embeddings and the logits.
    std::vector<GraphValueId> inputs, outputs;

    const GraphValue& operator[](GraphValueId id) const { return values[static_cast<size_t>(id.at)]; }
};

/// The rows and positions of one run of a graph.
struct Pass {
    int64_t n_valid = 0;  ///< rows that are not padding, 1 to the program's n_tok
    int64_t n_past = 0;   ///< position of the first row

    int64_t position(const GraphValue& value, int64_t row) const {
        return n_past + (value.is_last ? n_valid - 1 : row);
    }
    /// First position that is visible to a row.
    static int64_t first_seen(int64_t position, int64_t window) {
        return window > 0 && position >= window ? position - window + 1 : 0;
    }
    /// Rows of a value that are not padding.
    int64_t rows(const GraphValue& value) const { return value.is_last ? 1 : n_valid; }
};

}  // namespace tessera::npu
