#pragma once
// What the model of time says of a compiled graph: of each of its operations, and how much of VTCM is in use
// when.
#include <string>
#include <vector>

#include "src/npu/cost.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

/// One operation of a graph. Operations overlap: the next one's weights are loaded while this one is
/// computed.
struct NodeCost {
    std::string name;
    int32_t layer = -1;  ///< by the name, "blk.3.gate"; -1: none
    uint32_t first = 0, n_instructions = 0;
    /// Tiles of the largest product that is computed at once; 0 where nothing is multiplied.
    int64_t row_tiles = 0, n_tiles = 0, k_tiles = 0;
    int64_t dma_bytes = 0, n_descriptors = 0;
    std::array<double, kUnits> unit_us = {};  ///< busy
    /// By how much the graph takes longer for it; all of them together are the graph's time.
    double predicted_us = 0;
    int64_t vtcm_bytes = 0;  ///< up to the end of the last byte that it touches

    /// The unit that it keeps busy for longest.
    Unit bound() const;
};

struct GraphCost {
    Timeline timeline;
    std::vector<NodeCost> nodes;
};

/// The graph is a checked one; passes are taken with all of its rows and positions.
GraphCost graph_cost(const DeviceGraph& graph, const HtpDevice& device);

/// Bytes of VTCM that hold something still to be read, from `at_us` on.
struct VtcmUse {
    double at_us = 0;
    int64_t bytes = 0;
};

/// By rising time; in blocks of 2 KiB, from when one is first written until it is last read. The last one is
/// 0.
std::vector<VtcmUse> vtcm_use(const DeviceGraph& graph, const Timeline& timeline);

/// How full the arena of a graph gets.
struct ArenaUse {
    int64_t most_bytes = 0;          ///< that hold something still to be read, at the fullest operation
    int64_t largest_hole_bytes = 0;  ///< the largest piece between others that is free then
};

/// By the operations of the graph, each of which has what it reads and what it writes at the same time.
ArenaUse arena_use(const DeviceGraph& graph);

/// One run of a graph: its instructions, and overhead.graph_us.
double graph_us(const DeviceGraph& graph, const HtpDevice& device);

/// Microseconds of one pass through all segments: rows[i] of segment i, up to position n_ctx. Each takes the
/// graph that graph_for() says, and the time to start it.
double pass_us(const DeviceModel& model, const HtpDevice& device, std::span<const int64_t> rows,
               int64_t n_ctx);

/// The graph of a segment that a pass of `rows` rows takes which ends before position n_ctx: the one with the
/// fewest rows that are as many, or else with the most; among those the fewest positions that suffice, or
/// else the most.
const DeviceGraph& graph_for(const DeviceSegment& segment, int64_t rows, int64_t n_ctx);

}  // namespace tessera::npu
