#pragma once
// Decides which operations of a program the device computes. Support and selection are checked for each
// operation; consecutive operations that pass form segments, each executed by the device as a whole.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-like/record/program.h"
#include "src/npu/device.h"
#include "src/npu/recipe.h"

namespace tessera::npu {

/// The reason why an operation stays on the CPU.
enum class LeftOut : uint8_t {
    No,               ///< it runs on the device
    Lookup,           ///< embedding lookup
    Angles,           ///< RoPE angles: compiled into the graph as a table
    Experts,          ///< mixture of experts: expert choice at run time
    Operation,        ///< an operation without instructions of the device
    SoftCap,          ///< soft-capping of results or scores
    Sinks,            ///< attention sinks
    AttnTempScaling,  ///< attention temperature scaling
    TokenGate,        ///< a gate for each token (shared expert)
    Function,         ///< an activation function of two values
    Factor,           ///< an output scale that is not positive
    Shape,            ///< a matrix whose sides are not multiples of 32
    WideNorm,         ///< a norm over more than 65536 values
    HeadSizes,        ///< keys and values of different sizes
    Feature,          ///< the device does not support the recipe's weight format
    Cache,            ///< the other half of its attention stays on the CPU
    NotSelected,      ///< not selected by the user
    NoProduct,        ///< no matrix product next to it, so the transfer does not pay off
    Unsaid,           ///< a compiled file stores the text only
};

struct Placement {
    LeftOut why = LeftOut::No;
    std::string reason;    ///< human-readable; empty: on the device
    int32_t segment = -1;  ///< index into Partition::segments
};

/// Consecutive operations that the device computes.
struct DeviceRange {
    int32_t first_op = 0, last_op = 0;  ///< both included
    /// Values that are read but not written in the range, and values written in it that are read later or are
    /// the program's output; in the order of the operations.
    std::vector<record::ValueId> inputs, outputs;
    bool attends = false;
};

struct Partition {
    std::vector<Placement> ops;  ///< of the program, in its order
    std::vector<DeviceRange> segments;

    bool attends() const;
    int64_t n_on_device() const;
    /// Replaces the segments by those of compile_model(), which cover the same operations.
    void set_segments(std::vector<DeviceRange> ranges);
    /// Bytes per row that are copied into and out of all segments, as floats.
    int64_t boundary_bytes(const record::Program& program) const;
};

/// The part of a model that the user wants on the device; all of it by default.
class Selection {
  public:
    enum class Part : uint8_t { Attention, FeedForward, Head };

    /// Layers from 0 up to n, without the head.
    static Selection first_layers(int64_t n);
    /// Parses a list such as "blk.0-15.ffn,blk.*.attn,output", a union of its items: layers by number, range
    /// or all; `attn` is everything up to the residual add of attention, `ffn` the rest of a layer; `output`
    /// is the final norm and the head. Errors name the item.
    static Result<Selection> parse(std::string_view list);

    /// InvalidArgument if the selection names a layer >= n_layer.
    Result<void> check(int64_t n_layer) const;
    bool has(int64_t layer, Part part) const;

  private:
    struct Layers {
        int64_t first, last;  // both included
        bool attention, feed_forward;
    };
    static Result<Layers> parse_layers(const std::string& item);

    bool is_all_ = true, head_ = false;
    std::vector<Layers> layers_;
};

/// The name of an operation in reports: that of its tensor if it has only one, "blk.0.attn_output", else
/// "blk.0.qkv".
std::string op_name(const record::Program& program, const record::Op& op);

/// Assigns each operation of a program, recorded for all rows, to CPU or device. A segment boundary precedes
/// the final norm, so that the head is computed only for output rows. Errors: those of Selection::check.
Result<Partition> partition(const record::Program& program, const Selection& selection,
                            const HtpDevice& device, const Recipe& recipe);

/// The placement of an operation, from the segment and reason stored in a compiled file.
Placement placement_of(const record::Op& op, int32_t segment, const std::string& reason);

/// A line for each selected operation that stays on the CPU, except lookups and RoPE angles.
std::string left_out_text(const record::Program& program, const Partition& partition);

/// The operations from first to last, all of which run on the device, as a range.
DeviceRange range_of(const record::Program& program, int32_t first, int32_t last);

/// Whether the segment that begins with this operation is the final norm and the head, which is computed only
/// for rows whose logits are requested (the last one of a prompt).
bool is_head(const record::Program& program, int32_t first_op);

/// The whole program after embeddings and RoPE angles as one range. Unsupported names the first operation
/// that would stay on the CPU, and why.
Result<DeviceRange> whole_range(const record::Program& program);

}  // namespace tessera::npu
