#pragma once
// A model compiled for a device, as plain data: what the compiler makes, a file holds and the runner
// executes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/instruction.h"

namespace tessera::npu {

/// A value that comes from or goes to the processor: [n_tok of the graph, dim] in the tiles of ActLayout, of
/// encoding.bits / 8 planes.
struct Port {
    std::string name;
    uint64_t arena_offset = 0;
    int64_t dim = 0;
    Encoding encoding;
};

/// The instructions of one node of the graph, from `first` up to those of the next one.
struct DeviceNode {
    std::string name;  ///< of its result; of what it appends for one that has none
    uint32_t first = 0;
};

/// One number of rows and of positions of one segment.
struct DeviceGraph {
    int64_t n_tok = 0;
    int64_t n_ctx = 0;  ///< positions that are attended to, a multiple of 32; 0: nothing attends
    Stream stream;
    std::vector<DeviceNode> nodes;  ///< in the order of the stream
    std::vector<Port> inputs, outputs;
    int64_t arena_bytes = 0, vtcm_bytes = 0;  ///< up to the end of the last byte that the stream touches
};

/// Consecutive operations of the program, from first_op up to last_op, both included.
struct DeviceSegment {
    int32_t first_op = 0, last_op = 0;
    bool attends = false;
    int32_t session = 0;  ///< whose memory the streams mean; no smaller than that of the segment before
    std::vector<DeviceGraph> graphs;  ///< by rising n_tok, among equals by rising n_ctx
};

/// Part of a memory.
struct Extent {
    uint64_t at = 0;
    int64_t bytes = 0;
};

/// An address space of the device, whose size is limited: what its segments' streams call constants, arena
/// and cache are these parts of the model's.
struct DeviceSession {
    Extent constants, arena, cache;

    int64_t bytes() const { return constants.bytes + arena.bytes + cache.bytes; }
};

/// Where the keys and values of a layer lie in the cache of a session, bytes around 128: keys [n_head,
/// head_dim, n_ctx], values [n_head, n_ctx, head_dim], n_ctx being the model's. The same for all graphs.
struct DeviceCache {
    int32_t layer = 0;
    int32_t session = 0;
    int64_t n_head = 0, head_dim = 0;
    uint64_t k = 0, v = 0;
};

/// What became of an operation of the program.
struct DeviceOp {
    std::string name;      ///< "blk.0.qkv"
    int32_t segment = -1;  ///< -1: stays on the processor
    std::string reason;    ///< why it does
};

struct DeviceModel {
    std::string device;  ///< the name of its description
    uint64_t device_hash = 0, model_hash = 0, recipe_hash = 0, ranges_hash = 0;
    int64_t vtcm_bytes = 0, vtcm_span_bytes = 0;  ///< of the device
    int64_t n_ctx = 0;                            ///< positions of the cache; 0: nothing attends
    int64_t arena_bytes = 0, cache_bytes = 0;     ///< of all sessions, by place_sessions()
    std::vector<DeviceSession> sessions;          ///< an arena holds the largest graph of its session
    std::vector<DeviceSegment> segments;
    std::vector<DeviceCache> caches;
    std::vector<DeviceOp> ops;  ///< of the program, in its order
    /// Weights, records and tables of all graphs, read alone; owned by whoever made or mapped them.
    std::span<const std::byte> constants;
};

/// Puts the parts of all sessions one behind the other by their sizes, each at a multiple of 128 bytes, and
/// adds them up.
void place_sessions(DeviceModel& model);

}  // namespace tessera::npu
