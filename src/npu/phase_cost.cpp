// Segments run sequentially, because each waits for CPU work before it. Work that both sides share is not
// counted: attention, embedding lookup and copies between CPU and device.
#include "src/npu/phase_cost.h"

#include <algorithm>

#include "src/npu/graph_cost.h"
#include "src/npu/lower.h"

namespace tessera::npu {

Result<PhaseCost> phase_cost(const DeviceModel& model, const HtpDevice& device,
                             const record::Program& program, std::span<const DeviceRange> segments,
                             int64_t rows, const ProcessorModel& processor) {
    PhaseCost cost;
    for (size_t s = 0; s < segments.size(); ++s) {
        const DeviceRange& range = segments[s];
        const bool has_all_rows = !is_head(program, range.first_op);
        const int64_t n_rows = has_all_rows ? rows : 1;
        const DeviceGraph& graph = graph_for(model.segments[s], n_rows, 0);
        const auto n_runs = static_cast<double>((n_rows + graph.n_tok - 1) / graph.n_tok);
        cost.device_us += n_runs * graph_us(graph, device);
        if (n_rows == 1 && has_all_rows) cost.device_us += device.layer_us;
        TSR_TRY(const Graph nodes, lower(program, range, 1));
        double n_products = 0, n_bytes = 0;
        for (const Node& node : nodes.nodes) {
            const auto* linear = std::get_if<LinearNode>(&node);
            if (!linear) continue;
            const Weight& w = program[linear->w].view;
            n_products += static_cast<double>(n_rows * w.n_out * w.n_in);
            n_bytes += static_cast<double>(w.n_out) * static_cast<double>(w.row_bytes);
        }
        cost.processor_us += std::max(n_products / processor.gmac_per_s, n_bytes / processor.gb_per_s) / 1e3;
    }
    return cost;
}

}  // namespace tessera::npu
