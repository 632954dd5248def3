// The costs of a graph's operations add up to the cost of the graph.
#include "src/npu/graph_cost.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/npu/context_support.h"

namespace tessera::npu {
namespace {

using test::CompiledLinears;

TEST(GraphCost, OperationsAddUp) {
    const CompiledLinears c("x-elite", {1, 128}, 512, 1024);
    for (const DeviceSegment& segment : c.model.segments)
        for (const DeviceGraph& graph : segment.graphs) {
            const GraphCost cost = graph_cost(graph, c.device);
            ASSERT_EQ(cost.nodes.size(), 2u);
            NodeCost sum;
            for (const NodeCost& node : cost.nodes) {
                sum.n_instructions += node.n_instructions;
                sum.dma_bytes += node.dma_bytes;
                sum.n_descriptors += node.n_descriptors;
                sum.predicted_us += node.predicted_us;
                sum.vtcm_bytes = std::max(sum.vtcm_bytes, node.vtcm_bytes);
                for (size_t u = 0; u < kUnits; ++u) sum.unit_us[u] += node.unit_us[u];
                EXPECT_EQ(node.layer, segment.first_op - 1);
            }
            EXPECT_EQ(sum.n_instructions, graph.stream.size());
            EXPECT_EQ(sum.dma_bytes, cost.timeline.dma_bytes);
            EXPECT_EQ(sum.n_descriptors, cost.timeline.n_descriptors);
            EXPECT_NEAR(sum.predicted_us, cost.timeline.total_us, 1e-9);
            EXPECT_EQ(sum.vtcm_bytes, graph.vtcm_bytes);
            for (size_t u = 0; u < kUnits; ++u) EXPECT_NEAR(sum.unit_us[u], cost.timeline.unit_us[u], 1e-9);
            EXPECT_EQ(sum.bound(), cost.timeline.bound());
            EXPECT_EQ(cost.nodes[0].row_tiles, graph.n_tok == 1 ? 1 : 2);
            EXPECT_EQ(cost.nodes[0].k_tiles, 16);
        }
}

TEST(GraphCost, VtcmIsTakenAndGivenBack) {
    const CompiledLinears c("toy", {70}, 256, 512);
    const DeviceGraph& graph = c.model.segments[0].graphs[0];
    const Timeline time = predict(graph.stream, c.device);
    const std::vector<VtcmUse> use = vtcm_use(graph, time);
    ASSERT_GT(use.size(), 10u);
    int64_t most = 0;
    for (size_t i = 0; i < use.size(); ++i) {
        if (i > 0) {
            EXPECT_GT(use[i].at_us, use[i - 1].at_us);
        }
        EXPECT_GE(use[i].bytes, 0);
        most = std::max(most, use[i].bytes);
    }
    EXPECT_EQ(use.front().at_us, 0);
    EXPECT_EQ(use.back().bytes, 0);
    EXPECT_NEAR(use.back().at_us, time.total_us, 1e-9);
    EXPECT_LE(most, c.device.vtcm_bytes);
    EXPECT_GT(most, graph.vtcm_bytes / 2);
}

TEST(GraphCost, TheArenaHoldsTheValuesStillNeeded) {
    // One operation, with its input and its output as the only values.
    const CompiledLinears c("toy", {70}, 256, 512);
    DeviceGraph graph = c.model.segments[0].graphs[0];
    graph.nodes.resize(1);
    const ArenaUse all = arena_use(graph);
    EXPECT_EQ(all.most_bytes, graph.arena_bytes);
    EXPECT_EQ(all.largest_hole_bytes, 0);
    // The same with a gap between them.
    constexpr int64_t kGap = 4096;
    for (Instruction& instruction : graph.stream)
        if (instruction.op == Opcode::Store && instruction.transfer.region == Region::Arena)
            instruction.transfer.ddr += kGap;
    graph.outputs[0].arena_offset += kGap;
    graph.arena_bytes += kGap;
    const ArenaUse apart = arena_use(graph);
    EXPECT_EQ(apart.most_bytes, all.most_bytes);
    EXPECT_EQ(apart.largest_hole_bytes, kGap);
}

TEST(GraphCost, APassIsTheSumOfItsSegments) {
    const CompiledLinears c("x-elite", {1, 128}, 512, 1024);
    const int64_t rows[] = {128, 1};
    double sum = 0;
    for (size_t s = 0; s < 2; ++s)
        sum += c.device.graph_us +
               graph_cost(graph_for(c.model.segments[s], rows[s], 64), c.device).timeline.total_us;
    EXPECT_DOUBLE_EQ(pass_us(c.model, c.device, rows, 64), sum);
}

TEST(GraphCost, TheGraphOfAPass) {
    DeviceSegment segment;
    for (const int64_t rows : {1, 32, 128})
        for (const int64_t n_ctx : {256, 1024}) {
            DeviceGraph& graph = segment.graphs.emplace_back();
            graph.n_tok = rows;
            graph.n_ctx = n_ctx;
        }
    const auto chosen = [&](int64_t rows, int64_t n_ctx) {
        const DeviceGraph& graph = graph_for(segment, rows, n_ctx);
        return std::pair(graph.n_tok, graph.n_ctx);
    };
    EXPECT_EQ(chosen(1, 256), std::pair(int64_t{1}, int64_t{256}));
    EXPECT_EQ(chosen(1, 257), std::pair(int64_t{1}, int64_t{1024}));
    EXPECT_EQ(chosen(2, 9999), std::pair(int64_t{32}, int64_t{1024}));
    EXPECT_EQ(chosen(500, 1), std::pair(int64_t{128}, int64_t{256}));
}

}  // namespace
}  // namespace tessera::npu
