// Waits, bounds and hazards. A unit's instructions run one after the other, so what is done is one number a
// unit, and "before" is a comparison of such numbers (vector clocks).
#include "src/npu/stream.h"

#include <algorithm>

#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

constexpr const char* kUnitNames[] = {"DMA", "HVX", "HMX"};
constexpr const char* kOpNames[] = {"load", "store", "expand", "multiply"};

size_t at(Unit unit) { return static_cast<size_t>(unit); }

void join(Progress& into, const Progress& other) {
    for (size_t u = 0; u < kUnits; ++u) into[u] = std::max(into[u], other[u]);
}

/// What is done once the instruction with these waits is, `done` being what is known of earlier ones.
Progress finish(const std::array<std::vector<Progress>, kUnits>& done, size_t unit, const Progress& waits) {
    Progress all = done[unit].empty() ? Progress{} : done[unit].back();
    for (size_t u = 0; u < kUnits; ++u)
        if (waits[u] > 0) join(all, done[u][waits[u] - 1]);
    all[unit] = static_cast<uint32_t>(done[unit].size()) + 1;
    return all;
}

/// Bytes that an instruction reads or writes. `space`: 0 VTCM, 1 and on the regions.
struct Access {
    int space;
    uint64_t begin, end;
    bool is_write;
};

struct Accesses {
    std::array<Access, 5> list;
    size_t n = 0;
    void add(int space, uint64_t begin, uint64_t bytes, bool is_write) {
        if (bytes > 0) list[n++] = {space, begin, begin + bytes, is_write};
    }
};

uint64_t extent(uint64_t rows, uint64_t stride, uint64_t row_bytes) {
    return (rows - 1) * stride + row_bytes;
}

Accesses accesses(const Instruction& instruction) {
    Accesses out;
    switch (instruction.op) {
        case Opcode::Load:
        case Opcode::Store: {
            const Transfer& t = instruction.transfer;
            const bool is_load = instruction.op == Opcode::Load;
            out.add(0, t.vtcm, extent(t.rows, t.vtcm_stride, t.row_bytes), is_load);
            out.add(1 + static_cast<int>(t.region), t.ddr, extent(t.rows, t.ddr_stride, t.row_bytes),
                    !is_load);
            break;
        }
        case Opcode::Expand: {
            const Expand& e = instruction.expand;
            const uint64_t n_tiles = uint64_t{e.n_tiles} * e.k_tiles;
            out.add(0, e.packed, n_tiles * kNibbleTileBytes, false);
            out.add(0, e.mult, uint64_t{e.n_tiles} * n_mult_bytes(e.k_tiles, e.block), false);
            out.add(0, e.weights, n_tiles * kWeightTileBytes, true);
            break;
        }
        case Opcode::Multiply: {
            const Multiply& m = instruction.multiply;
            const uint64_t row_tiles = (uint64_t{m.rows} + kTileRows - 1) / kTileRows;
            out.add(0, m.act, row_tiles * m.planes_in * m.k_tiles * kActTileBytes, false);
            out.add(0, m.weights, uint64_t{m.n_tiles} * m.k_tiles * kWeightTileBytes, false);
            if (m.last) {
                out.add(0, m.records, uint64_t{m.n_tiles} * kRecordTileBytes, false);
                out.add(0, m.out, row_tiles * m.planes_out * m.n_tiles * kActTileBytes, true);
            }
            if (!m.first || !m.last) out.add(0, m.sums, row_tiles * m.n_tiles * kSumTileBytes, !m.last);
            break;
        }
    }
    return out;
}

bool in_range(uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; }

/// Large enough for any tensor, small enough for products of three in 64 bits.
constexpr uint32_t kMost = 1 << 20;

/// What is wrong with the fields by themselves, or null.
const char* wrong_fields(const Instruction& instruction) {
    if (instruction.op == Opcode::Expand) {
        const Expand& e = instruction.expand;
        if (!in_range(e.n_tiles, 1, kMost) || !in_range(e.k_tiles, 1, kMost)) return "its number of tiles";
        return e.block == 16 || e.block == 32 || e.block == 64 ? nullptr : "its block";
    }
    if (instruction.op == Opcode::Multiply) {
        const Multiply& m = instruction.multiply;
        if (!in_range(m.rows, 1, kMost)) return "its number of rows";
        if (!in_range(m.n_tiles, 1, kMost) || !in_range(m.k_tiles, 1, kMost)) return "its number of tiles";
        if (!in_range(m.packet_k_tiles, 1, kMost)) return "its packets";
        if (!in_range(m.planes_in, 1, 2) || !in_range(m.planes_out, 1, 2)) return "its planes";
        if (m.zero_out < 0 || m.zero_out >> (8 * m.planes_out) != 0) return "its zero point";
        if (m.act % kActTileBytes || m.out % kActTileBytes || m.weights % 128 || m.records % 16 || m.sums % 8)
            return "the alignment of its operands";
        return nullptr;
    }
    const Transfer& t = instruction.transfer;
    if (!in_range(t.rows, 1, kMost) || t.row_bytes == 0) return "its rows";
    if (t.region > Region::Output || t.ddr > uint64_t{1} << 48 || t.ddr_stride > uint64_t{1} << 32)
        return "its place in DDR";
    // Weights and input may be mapped from a file, and are read alone.
    if (instruction.op == Opcode::Store && t.region != Region::Output) return "a store there";
    return nullptr;
}

/// Whether a packet's activations or weights cross a multiple of the span.
bool crosses_span(const Multiply& m, uint64_t span) {
    const uint64_t runs[2][3] = {
        {m.act, (uint64_t{m.rows} + kTileRows - 1) / kTileRows * m.planes_in, kActTileBytes},
        {m.weights, m.n_tiles, kWeightTileBytes}};
    for (const auto& [begin, n_runs, tile_bytes] : runs)
        for (uint64_t run = 0; run < n_runs; ++run)
            for (uint32_t k = 0; k < m.k_tiles; k += m.packet_k_tiles) {
                const uint64_t first = begin + (run * m.k_tiles + k) * tile_bytes;
                const uint64_t n = std::min(m.packet_k_tiles, m.k_tiles - k);
                if (first / span != (first + n * tile_bytes - 1) / span) return true;
            }
    return false;
}

Result<void> check_instruction(const Instruction& instruction, const Bounds& bounds) {
    if (const char* wrong = wrong_fields(instruction))
        return fail(ErrorCode::Malformed, "%s makes no sense", wrong);
    const Accesses touched = accesses(instruction);
    for (size_t i = 0; i < touched.n; ++i) {
        const Access& a = touched.list[i];
        const int64_t size =
            a.space == 0 ? bounds.vtcm_bytes : bounds.region_bytes[static_cast<size_t>(a.space - 1)];
        if (a.end > static_cast<uint64_t>(size))
            return fail(ErrorCode::Malformed, "bytes %llu to %llu of %s are outside of its %lld",
                        static_cast<unsigned long long>(a.begin), static_cast<unsigned long long>(a.end),
                        a.space == 0 ? "VTCM" : "a region in DDR", static_cast<long long>(size));
    }
    if (instruction.op == Opcode::Multiply && bounds.span_bytes > 0 &&
        crosses_span(instruction.multiply, static_cast<uint64_t>(bounds.span_bytes)))
        return fail(ErrorCode::Malformed, "an operand crosses a multiple of %lld bytes of VTCM",
                    static_cast<long long>(bounds.span_bytes));
    return {};
}

bool overlap(const Accesses& a, const Accesses& b) {
    for (size_t i = 0; i < a.n; ++i)
        for (size_t j = 0; j < b.n; ++j) {
            const Access &x = a.list[i], &y = b.list[j];
            if (x.space == y.space && (x.is_write || y.is_write) && x.begin < y.end && y.begin < x.end)
                return true;
        }
    return false;
}

std::string name_of(const Stream& stream, size_t index) {
    const Opcode op = stream[index].op;
    return std::string(kOpNames[static_cast<size_t>(op)]) + " " + std::to_string(index);
}

}  // namespace

StreamBuilder::Ticket StreamBuilder::add(Instruction instruction, std::span<const Ticket> after) {
    const Unit unit = unit_of(instruction.op);
    Progress wanted = {};
    for (const Ticket& ticket : after)
        wanted[at(ticket.unit)] = std::max(wanted[at(ticket.unit)], ticket.count);
    wanted[at(unit)] = 0;  // comes by itself
    for (size_t u = 0; u < kUnits; ++u) {
        Progress others = wanted;
        others[u] = 0;
        if (finish(done_, at(unit), others)[u] >= wanted[u]) wanted[u] = 0;
    }
    instruction.waits = wanted;
    done_[at(unit)].push_back(finish(done_, at(unit), wanted));
    stream_.push_back(instruction);
    return {unit, static_cast<uint32_t>(done_[at(unit)].size())};
}

Result<void> check_stream(const Stream& stream, const Bounds& bounds) {
    Progress before = {};
    for (size_t i = 0; i < stream.size(); ++i) {
        const Instruction& instruction = stream[i];
        if (instruction.op > Opcode::Multiply)
            return fail(ErrorCode::Malformed, "instruction %zu: there is no such operation", i);
        // Waits look back only, hence the order of the stream is one in which everything can run.
        for (size_t u = 0; u < kUnits; ++u)
            if (instruction.waits[u] > before[u])
                return fail(ErrorCode::Malformed,
                            "%s: waits for %u instructions of %s, of which %u come before it",
                            name_of(stream, i).c_str(), instruction.waits[u], kUnitNames[u], before[u]);
        if (auto checked = check_instruction(instruction, bounds); !checked)
            return fail_in(name_of(stream, i), std::move(checked.error()));
        ++before[at(unit_of(instruction.op))];
    }
    return {};
}

std::string find_hazard(const Stream& stream) {
    std::array<std::vector<Progress>, kUnits> done;
    std::vector<Accesses> touched;
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < stream.size(); ++i) {
        const size_t unit = at(unit_of(stream[i].op));
        const Progress before = finish(done, unit, stream[i].waits);
        touched.push_back(accesses(stream[i]));
        for (size_t j = 0; j < i; ++j) {
            const size_t other = at(unit_of(stream[j].op));
            if (other != unit && before[other] < counts[j] && overlap(touched[i], touched[j]))
                return name_of(stream, i) + " does not wait for " + name_of(stream, j);
        }
        done[unit].push_back(before);
        counts.push_back(static_cast<uint32_t>(done[unit].size()));
    }
    return {};
}

}  // namespace tessera::npu
