#pragma once
// Which operations of a program the device computes. What it could and what it is to compute are both asked
// operation by operation; what is left are segments, each of which it does in one go.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-like/record/program.h"
#include "src/npu/device.h"
#include "src/npu/recipe.h"

namespace tessera::npu {

/// Why an operation stays on the processor.
enum class LeftOut : uint8_t {
    No,               ///< it does not
    Lookup,           ///< rows of a table are looked up
    Angles,           ///< angles of all positions are part of what is compiled
    Experts,          ///< experts are chosen while it runs
    SoftCap,          ///< of results or scores
    Sinks,            ///< of the softmax
    AttnTempScaling,  ///< queries that grow with their position
    TokenGate,        ///< a gate of each token
    Function,         ///< a function of two values
    Factor,           ///< a factor of results that is not above 0
    Shape,            ///< a matrix that is no multiple of 32 each way
    WideNorm,         ///< a norm of more than 65536 values
    Feature,          ///< the recipe's weights are not the device's
    Cache,            ///< the other half of its attention stays on the processor
    NotSelected,      ///< the user wants it so
    NoProduct,        ///< there is no product around it, so that it is not worth the way
    Unsaid,           ///< a compiled file has the text alone
};

struct Placement {
    LeftOut why = LeftOut::No;
    std::string reason;    ///< for people; empty: on the device
    int32_t segment = -1;  ///< of Partition::segments
};

/// Consecutive operations that the device computes.
struct DeviceRange {
    int32_t first_op = 0, last_op = 0;  ///< both included
    /// Values that they read and do not write, and values of theirs that are read behind them or are
    /// the program's output; in the order of the operations.
    std::vector<record::ValueId> inputs, outputs;
    bool attends = false;
};

struct Partition {
    std::vector<Placement> ops;  ///< of the program, in its order
    std::vector<DeviceRange> segments;

    bool attends() const;
    int64_t n_on_device() const;
    /// The same operations in other segments: those that compile_model() made of them.
    void set_segments(std::vector<DeviceRange> ranges);
    /// Bytes that a row takes into all segments and out of them, as floats.
    int64_t boundary_bytes(const record::Program& program) const;
};

/// What of a model the user wants on the device: by default all of it.
class Selection {
  public:
    enum class Part : uint8_t { Attention, FeedForward, Head };

    /// Layers from 0 up to n, without the head.
    static Selection first_layers(int64_t n);
    /// A list such as "blk.0-15.ffn,blk.*.attn,output", whose parts add up: layers by number, as a range or
    /// all, of which attn is everything up to what attention adds to the stream and ffn the rest; output is
    /// the last norm and the head. Errors name the item.
    static Result<Selection> parse(std::string_view list);

    /// InvalidArgument where it names a layer that a model of so many has not.
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

/// The name of an operation in reports: of its tensor where it has one alone, "blk.0.attn_output", or else
/// "blk.0.qkv".
std::string op_name(const record::Program& program, const record::Op& op);

/// Where each operation of a program runs that was recorded for all rows. There is a cut in front of the last
/// norm, so that the head is computed for the rows wanted alone. Errors: those of Selection::check.
Result<Partition> partition(const record::Program& program, const Selection& selection,
                            const HtpDevice& device, const Recipe& recipe);

/// The placement of an operation of which a compiled file has segment and reason.
Placement placement_of(const record::Op& op, int32_t segment, const std::string& reason);

/// A line for each operation that was selected and stays on the processor, but for look-ups and angles.
std::string left_out_text(const record::Program& program, const Partition& partition);

/// The operations from first up to last, none of which stays on the processor, as a range.
DeviceRange range_of(const record::Program& program, int32_t first, int32_t last);

/// Whether the segment that begins with this operation is that of the last norm and the head, which is
/// computed for the rows alone whose logits are wanted: for the last one of a prompt.
bool is_head(const record::Program& program, int32_t first_op);

/// The whole program behind embeddings and angles as one range. Unsupported names the first operation that
/// would have to stay on the processor, and why.
Result<DeviceRange> whole_range(const record::Program& program);

}  // namespace tessera::npu
