#pragma once
// Predicted times of a compiled graph and of its operations, and VTCM use over time.
#include <string>
#include <vector>

#include "src/npu/cost.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

/// One operation of a graph. Operations overlap: weights of the next one are loaded while this one is
/// computed.
struct NodeCost {
    std::string name;
    int32_t layer = -1;  ///< from the name, "blk.3.gate"; -1: none
    uint32_t first = 0, n_instructions = 0;
    /// Tiles of the largest product that is computed at once; 0 for operations without products.
    int64_t row_tiles = 0, n_tiles = 0, k_tiles = 0;
    int64_t dma_bytes = 0, n_descriptors = 0;
    std::array<double, kUnits> unit_us = {};  ///< busy
    /// Increase of the graph's time by this operation; they add up to the graph's time.
    double predicted_us = 0;
    int64_t vtcm_bytes = 0;  ///< end of the last byte that it touches

    /// The bottleneck: the unit that it occupies for the longest time.
    Unit bound() const;
};

struct GraphCost {
    Timeline timeline;
    std::vector<NodeCost> nodes;
};

/// The cost of a checked graph for a pass with all of its rows and positions.
GraphCost graph_cost(const DeviceGraph& graph, const HtpDevice& device);

/// Live bytes of VTCM from `at_us` on.
struct VtcmUse {
    double at_us = 0;
    int64_t bytes = 0;
};

/// VTCM use in rising order of time, in blocks of 2 KiB that are live from the first write to the last read.
/// The last entry is 0.
std::vector<VtcmUse> vtcm_use(const DeviceGraph& graph, const Timeline& timeline);

/// Peak use of a graph's arena.
struct ArenaUse {
    int64_t most_bytes = 0;          ///< live bytes at the operation with the most of them
    int64_t largest_hole_bytes = 0;  ///< largest free gap between live values at that operation
};

/// Determined by the operations of the graph, each of which needs its inputs and outputs at the same time.
ArenaUse arena_use(const DeviceGraph& graph);

/// Microseconds of one run of a graph: its instructions and overhead.graph_us.
double graph_us(const DeviceGraph& graph, const HtpDevice& device);

/// Microseconds of one pass through all segments: rows[i] of segment i, up to position n_ctx. Each segment
/// runs the graph chosen by graph_for(), plus the time to start it.
double pass_us(const DeviceModel& model, const HtpDevice& device, std::span<const int64_t> rows,
               int64_t n_ctx);

/// The graph of a segment for a pass of `rows` rows that ends before position n_ctx: the smallest number of
/// rows that suffices, or else the largest; among those the smallest context that suffices, or else the
/// largest.
const DeviceGraph& graph_for(const DeviceSegment& segment, int64_t rows, int64_t n_ctx);

}  // namespace tessera::npu
