// The time model, per instruction and for a stream.
#include "src/npu/cost.h"

#include <algorithm>

#include "src/npu/layout.h"
#include "src/npu/operands.h"

namespace tessera::npu {

int64_t n_descriptors(const Transfer& t, const HtpDevice& device) {
    const int64_t rows = t.rows, row_bytes = t.row_bytes;
    // Rows that are contiguous on both sides are a single row.
    if (rows == 1 || (t.ddr_stride == t.row_bytes && t.vtcm_stride == t.row_bytes))
        return tiles(rows * row_bytes, device.dma_max_1d);
    const auto most = static_cast<uint64_t>(device.dma_max_2d);
    if (t.row_bytes > most || t.ddr_stride > most || t.vtcm_stride > most)
        return rows * tiles(row_bytes, device.dma_max_1d);
    return tiles(rows, device.dma_max_2d);
}

int64_t bytes_moved(const Instruction& instruction) {
    if (instruction.op == Opcode::Multiply) return 0;
    uint64_t bytes = 0;
    if (unit_of(instruction.op) == Unit::Dma) {
        bytes = uint64_t{instruction.transfer.rows} * instruction.transfer.row_bytes;
    } else {
        for (const Access& access : accesses(instruction, {})) bytes += access.end - access.begin;
    }
    return static_cast<int64_t>(bytes);
}

int64_t tile_products(const Multiply& m) {
    return tiles(m.rows, kTileRows) * m.n_tiles * m.k_tiles * m.planes_in * kTileRows * kWeightTileBytes;
}

double busy_us(const Instruction& instruction, const HtpDevice& device) {
    const double clock = static_cast<double>(device.clock_hz);
    const double bytes = static_cast<double>(bytes_moved(instruction));
    switch (unit_of(instruction.op)) {
        case Unit::Dma:
            return bytes / device.dma_gb_per_s * 1e-3;
        case Unit::Hvx: {
            const double moving =
                bytes / (device.hvx_bytes_per_cycle * static_cast<double>(device.hvx_contexts)) / clock * 1e6;
            if (instruction.op != Opcode::Softmax) return moving;
            // Each score takes an exponential, i.e. many instructions, far more than moving its four bytes.
            const double scores = static_cast<double>(instruction.softmax.rows) * instruction.softmax.dim;
            return std::max(moving, scores / device.attention_elements_per_s * 1e6);
        }
        case Unit::Hmx:
            break;
    }
    const double per_cycle =
        static_cast<double>(device.hmx_mac_per_cycle * device.hmx_units) * device.hmx_efficiency;
    return static_cast<double>(tile_products(instruction.multiply)) / per_cycle / clock * 1e6;
}

Unit Timeline::bound() const {
    return static_cast<Unit>(std::max_element(unit_us.begin(), unit_us.end()) - unit_us.begin());
}

Timeline predict(const Stream& stream, const HtpDevice& device) {
    Timeline out;
    std::array<std::vector<double>, kUnits> ends;
    std::array<double, kUnits> free_at = {};
    for (const Instruction& instruction : stream) {
        const auto unit = static_cast<size_t>(unit_of(instruction.op));
        double begin = free_at[unit];
        for (size_t u = 0; u < kUnits; ++u)
            if (instruction.waits[u] > 0) begin = std::max(begin, ends[u][instruction.waits[u] - 1]);
        const double busy = busy_us(instruction, device);
        free_at[unit] = begin + busy;
        // A transfer starts while the previous one is still within its latency.
        const bool is_dma = unit_of(instruction.op) == Unit::Dma;
        const double end = begin + busy + (is_dma ? static_cast<double>(device.dma_latency_ns) * 1e-3 : 0);
        // Instructions of a unit complete in order.
        ends[unit].push_back(ends[unit].empty() ? end : std::max(end, ends[unit].back()));
        out.intervals.push_back({begin, ends[unit].back()});
        out.unit_us[unit] += busy;
        out.total_us = std::max(out.total_us, ends[unit].back());
        if (is_dma) {
            out.dma_bytes += bytes_moved(instruction);
            out.n_descriptors += n_descriptors(instruction.transfer, device);
        }
    }
    return out;
}

}  // namespace tessera::npu
