// Sums up the timeline by operation, and VTCM use over time. The graph must have been checked
// (model_check.h).
#include "src/npu/graph_cost.h"

#include <algorithm>
#include <charconv>

#include "src/npu/layout.h"
#include "src/npu/operands.h"

namespace tessera::npu {

namespace {

constexpr uint64_t kBlockBytes = 2048;

PassBounds bounds_of(const DeviceGraph& graph) {
    return {graph.n_tok, graph.n_ctx > 0 ? graph.n_ctx : graph.n_tok};
}

int32_t layer_of(std::string_view name) {
    constexpr std::string_view kPrefix = "blk.";
    int32_t layer = -1;
    if (name.starts_with(kPrefix))
        std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), layer);
    return layer;
}

void add_instruction(const Instruction& instruction, const DeviceGraph& graph, const HtpDevice& device,
                     NodeCost& cost) {
    ++cost.n_instructions;
    cost.unit_us[static_cast<size_t>(unit_of(instruction.op))] += busy_us(instruction, device);
    for (const Access& access : accesses(instruction, bounds_of(graph)))
        if (access.space == 0) cost.vtcm_bytes = std::max(cost.vtcm_bytes, static_cast<int64_t>(access.end));
    if (unit_of(instruction.op) == Unit::Dma) {
        cost.dma_bytes += bytes_moved(instruction);
        cost.n_descriptors += n_descriptors(instruction.transfer, device);
    }
    if (instruction.op != Opcode::Multiply) return;
    const Multiply& m = instruction.multiply;
    const int64_t row_tiles = tiles(m.rows, kTileRows);
    if (row_tiles * m.n_tiles * m.k_tiles <= cost.row_tiles * cost.n_tiles * cost.k_tiles) return;
    cost.row_tiles = row_tiles;
    cost.n_tiles = m.n_tiles;
    cost.k_tiles = m.k_tiles;
}

/// Live range of a block: first write to last read.
struct Block {
    double since_us = -1, until_us = -1;
};

}  // namespace

Unit NodeCost::bound() const {
    return static_cast<Unit>(std::max_element(unit_us.begin(), unit_us.end()) - unit_us.begin());
}

GraphCost graph_cost(const DeviceGraph& graph, const HtpDevice& device) {
    GraphCost out{predict(graph.stream, device), {}};
    double done_us = 0;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
        const DeviceNode& node = graph.nodes[i];
        const size_t end = i + 1 < graph.nodes.size() ? graph.nodes[i + 1].first : graph.stream.size();
        NodeCost& cost = out.nodes.emplace_back();
        cost.name = node.name;
        cost.layer = layer_of(node.name);
        cost.first = node.first;
        double end_us = done_us;
        for (size_t at = node.first; at < end; ++at) {
            add_instruction(graph.stream[at], graph, device, cost);
            end_us = std::max(end_us, out.timeline.intervals[at].end_us);
        }
        cost.predicted_us = end_us - done_us;
        done_us = end_us;
    }
    return out;
}

std::vector<VtcmUse> vtcm_use(const DeviceGraph& graph, const Timeline& timeline) {
    std::vector<Block> blocks(static_cast<size_t>(graph.vtcm_bytes) / kBlockBytes + 1);
    std::vector<VtcmUse> changes;
    const auto close = [&changes](Block& block) {
        if (block.since_us >= 0 && block.until_us > block.since_us) {
            changes.push_back({block.since_us, kBlockBytes});
            changes.push_back({block.until_us, -static_cast<int64_t>(kBlockBytes)});
        }
        block = {};
    };
    for (size_t i = 0; i < graph.stream.size(); ++i) {
        const Interval& time = timeline.intervals[i];
        for (const Access& access : accesses(graph.stream[i], bounds_of(graph))) {
            if (access.space != 0) continue;
            for (uint64_t b = access.begin / kBlockBytes; b * kBlockBytes < access.end; ++b) {
                Block& block = blocks[b];
                // Other bytes of the same block may still be live.
                if (access.is_write && time.begin_us > block.until_us) close(block);
                if (block.since_us < 0) block.since_us = time.begin_us;
                block.until_us = std::max(block.until_us, time.end_us);
            }
        }
    }
    for (Block& block : blocks) close(block);
    std::sort(changes.begin(), changes.end(),
              [](const VtcmUse& a, const VtcmUse& b) { return a.at_us < b.at_us; });
    std::vector<VtcmUse> use;
    int64_t bytes = 0;
    for (const VtcmUse& change : changes) {
        bytes += change.bytes;
        if (use.empty() || use.back().at_us < change.at_us)
            use.push_back({change.at_us, bytes});
        else
            use.back().bytes = bytes;
    }
    return use;
}

ArenaUse arena_use(const DeviceGraph& graph) {
    // Values are aligned to this, so no two share a block.
    constexpr uint64_t kBlock = 128;
    constexpr int kArena = 1 + static_cast<int>(Region::Arena);
    /// First and last operation in which a block holds the same value.
    struct Held {
        int32_t first = -1, last = -1;
    };
    const size_t n_blocks = (static_cast<size_t>(graph.arena_bytes) + kBlock - 1) / kBlock;
    const auto n_nodes = static_cast<int32_t>(graph.nodes.size());
    std::vector<std::vector<Held>> held(n_blocks);
    for (int32_t n = 0; n < n_nodes; ++n) {
        const auto at = static_cast<size_t>(n);
        const size_t end = at + 1 < graph.nodes.size() ? graph.nodes[at + 1].first : graph.stream.size();
        for (size_t i = graph.nodes[at].first; i < end; ++i)
            for (const Access& access : accesses(graph.stream[i], bounds_of(graph))) {
                if (access.space != kArena) continue;
                for (uint64_t b = access.begin / kBlock; b * kBlock < access.end; ++b) {
                    std::vector<Held>& block = held[b];
                    // A block that is read before it is written holds an input, live from the start.
                    if (block.empty())
                        block.push_back({access.is_write ? n : 0, n});
                    else if (access.is_write && block.back().last < n)
                        block.push_back({n, n});
                    block.back().last = n;
                }
            }
    }
    for (const Port& port : graph.outputs) {
        const ActLayout layout{graph.n_tok, port.dim, port.encoding.bits / 8};
        const uint64_t end = port.arena_offset + static_cast<uint64_t>(layout.bytes());
        for (uint64_t b = port.arena_offset / kBlock; b * kBlock < end; ++b)
            if (!held[b].empty()) held[b].back().last = n_nodes;
    }
    std::vector<int64_t> changes(static_cast<size_t>(n_nodes) + 2);
    for (const std::vector<Held>& block : held)
        for (const Held& value : block) {
            ++changes[static_cast<size_t>(value.first)];
            --changes[static_cast<size_t>(value.last) + 1];
        }
    ArenaUse use;
    int32_t fullest = 0;
    int64_t n_held = 0;
    for (int32_t n = 0; n <= n_nodes; ++n) {
        n_held += changes[static_cast<size_t>(n)];
        if (n_held * static_cast<int64_t>(kBlock) <= use.most_bytes) continue;
        use.most_bytes = n_held * static_cast<int64_t>(kBlock);
        fullest = n;
    }
    int64_t hole = 0;
    for (const std::vector<Held>& block : held) {
        const bool is_held = std::any_of(block.begin(), block.end(), [&](const Held& value) {
            return value.first <= fullest && fullest <= value.last;
        });
        hole = is_held ? 0 : hole + static_cast<int64_t>(kBlock);
        use.largest_hole_bytes = std::max(use.largest_hole_bytes, hole);
    }
    use.most_bytes = std::min(use.most_bytes, graph.arena_bytes);
    return use;
}

double graph_us(const DeviceGraph& graph, const HtpDevice& device) {
    return device.graph_us + predict(graph.stream, device).total_us;
}

double pass_us(const DeviceModel& model, const HtpDevice& device, std::span<const int64_t> rows,
               int64_t n_ctx) {
    double total_us = 0;
    for (size_t i = 0; i < model.segments.size(); ++i)
        total_us += graph_us(graph_for(model.segments[i], rows[i], n_ctx), device);
    return total_us;
}

const DeviceGraph& graph_for(const DeviceSegment& segment, int64_t rows, int64_t n_ctx) {
    const DeviceGraph* best = nullptr;
    const auto better = [](int64_t wanted, int64_t a, int64_t b) {
        return (a >= wanted) != (b >= wanted) ? a >= wanted : (a >= wanted ? a < b : a > b);
    };
    for (const DeviceGraph& graph : segment.graphs)
        if (!best || better(rows, graph.n_tok, best->n_tok) ||
            (graph.n_tok == best->n_tok && better(n_ctx, graph.n_ctx, best->n_ctx)))
            best = &graph;
    return *best;
}

}  // namespace tessera::npu
