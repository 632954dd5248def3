#pragma once
// A model compiled for a device, as plain data: output of the compiler, content of a context file, and input
// of the runner.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/npu/encoding.h"
#include "src/npu/instruction.h"

namespace tessera::npu {

/// A value exchanged with the CPU: [n_tok of the graph, dim] in the tiles of ActLayout, with encoding.bits /
/// 8 planes.
struct Port {
    std::string name;
    uint64_t arena_offset = 0;
    int64_t dim = 0;
    Encoding encoding;
};

/// The instructions of one node of the graph, from `first` to the first of the next node.
struct DeviceNode {
    std::string name;  ///< name of its result, or of the appended value if it has no result
    uint32_t first = 0;
};

/// A segment compiled for one number of rows and one context size.
struct DeviceGraph {
    int64_t n_tok = 0;
    int64_t n_ctx = 0;  ///< positions that are attended to, a multiple of 32; 0: no attention
    Stream stream;
    std::vector<DeviceNode> nodes;  ///< in stream order
    std::vector<Port> inputs, outputs;
    int64_t arena_bytes = 0, vtcm_bytes = 0;  ///< end of the last byte that the stream accesses
};

/// Consecutive operations of the program, first_op to last_op inclusive.
struct DeviceSegment {
    int32_t first_op = 0, last_op = 0;
    bool attends = false;
    int32_t session =
        0;  ///< session whose memory the streams address; not smaller than that of the previous segment
    std::vector<DeviceGraph> graphs;  ///< sorted by n_tok, then n_ctx
};

/// A range of a memory.
struct Extent {
    uint64_t at = 0;
    int64_t bytes = 0;
};

/// An address space of the device, of limited size: the ranges of the model's constants, arena and cache that
/// its streams address.
struct DeviceSession {
    Extent constants, arena, cache;

    int64_t bytes() const { return constants.bytes + arena.bytes + cache.bytes; }
};

/// Offsets of a layer's keys and values in the cache of a session, as bytes with zero 128: keys [n_head,
/// head_dim, n_ctx], values [n_head, n_ctx, head_dim], with the model's n_ctx. The same for all graphs.
struct DeviceCache {
    int32_t layer = 0;
    int32_t session = 0;
    int64_t n_head = 0, head_dim = 0;
    uint64_t k = 0, v = 0;
};

/// The placement of an operation of the program.
struct DeviceOp {
    std::string name;      ///< "blk.0.qkv"
    int32_t segment = -1;  ///< -1: stays on the CPU
    std::string reason;    ///< the reason if it stays on the CPU
};

struct DeviceModel {
    std::string device;  ///< name of the device description
    uint64_t device_hash = 0, model_hash = 0, recipe_hash = 0, ranges_hash = 0;
    int64_t vtcm_bytes = 0, vtcm_span_bytes = 0;  ///< the device's
    int64_t n_ctx = 0;                            ///< positions of the cache; 0: no attention
    int64_t arena_bytes = 0, cache_bytes = 0;     ///< sums over all sessions, from place_sessions()
    std::vector<DeviceSession> sessions;          ///< the arena of a session holds its largest graph
    std::vector<DeviceSegment> segments;
    std::vector<DeviceCache> caches;
    std::vector<DeviceOp> ops;  ///< in program order
    /// Weights, records and tables of all graphs. Read-only view, owned by the compiled model or the mapped
    /// file.
    std::span<const std::byte> constants;
};

/// Places the ranges of all sessions consecutively, each aligned to 128 bytes, and sums up their sizes.
void place_sessions(DeviceModel& model);

}  // namespace tessera::npu
