// Waits, bounds and hazards. Each unit executes in order, so progress is one number per unit, and "happens
// before" compares such numbers (vector clocks). operands.cpp defines the accessed bytes.
#include "src/npu/stream.h"

#include <algorithm>

#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

constexpr const char* kUnitNames[] = {"DMA", "HVX", "HMX"};

size_t at(Unit unit) { return static_cast<size_t>(unit); }

void join(Progress& into, const Progress& other) {
    for (size_t u = 0; u < kUnits; ++u) into[u] = std::max(into[u], other[u]);
}

/// Progress guaranteed when an instruction with these waits is done; `done` is that of earlier instructions.
Progress finish(const std::array<std::vector<Progress>, kUnits>& done, size_t unit, const Progress& waits) {
    Progress all = done[unit].empty() ? Progress{} : done[unit].back();
    for (size_t u = 0; u < kUnits; ++u)
        if (waits[u] > 0) join(all, done[u][waits[u] - 1]);
    all[unit] = static_cast<uint32_t>(done[unit].size()) + 1;
    return all;
}

/// Whether activations or weights of a packet cross a multiple of the span.
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

bool conflict(const Access& a, const Access& b) { return (a.is_write || b.is_write) && a.overlaps(b); }

bool conflict(const Accesses& a, const Accesses& b) {
    return std::any_of(a.begin(), a.end(), [&](const Access& x) {
        return std::any_of(b.begin(), b.end(), [&](const Access& y) { return conflict(x, y); });
    });
}

Result<void> check_instruction(const Instruction& instruction, const Bounds& bounds) {
    if (const char* wrong = wrong_fields(instruction))
        return fail(ErrorCode::Malformed, "%s makes no sense", wrong);
    const Accesses touched = accesses(instruction, bounds.pass);
    for (const Access& a : touched) {
        const int64_t size =
            a.space == 0 ? bounds.vtcm_bytes : bounds.region_bytes[static_cast<size_t>(a.space - 1)];
        if (a.end > static_cast<uint64_t>(size))
            return fail(ErrorCode::Malformed, "bytes %llu to %llu of %s are outside of its %lld",
                        static_cast<unsigned long long>(a.begin), static_cast<unsigned long long>(a.end),
                        a.space == 0 ? "VTCM" : "a region in DDR", static_cast<long long>(size));
        for (const Access& b : touched)
            if (&a < &b && conflict(a, b))
                return fail(ErrorCode::Malformed, "its result lies over its operands");
    }
    if (instruction.op == Opcode::Multiply && bounds.span_bytes > 0 &&
        crosses_span(instruction.multiply, static_cast<uint64_t>(bounds.span_bytes)))
        return fail(ErrorCode::Malformed, "an operand crosses a multiple of %lld bytes of VTCM",
                    static_cast<long long>(bounds.span_bytes));
    return {};
}

std::string text_of(const Stream& stream, size_t index) {
    return std::string(opcode_name(stream[index].op)) + " " + std::to_string(index);
}

}  // namespace

void StreamBuilder::split(uint64_t where) {
    auto next = vtcm_.lower_bound(where);
    if (next == vtcm_.begin() || (next != vtcm_.end() && next->first == where)) return;
    Touched& before = std::prev(next)->second;
    if (before.end <= where) return;
    Touched rest = before;
    before.end = where;
    vtcm_.emplace_hint(next, where, rest);
}

void StreamBuilder::touch(const Access& access, size_t unit, uint32_t count, Progress& waits) {
    split(access.begin);
    split(access.end);
    auto it = vtcm_.lower_bound(access.begin);
    if (access.is_write) {
        while (it != vtcm_.end() && it->first < access.end) {
            join(waits, it->second.reads);
            join(waits, it->second.writes);
            it = vtcm_.erase(it);
        }
        Touched& own = vtcm_[access.begin];
        own.end = access.end;
        own.writes[unit] = count;
        return;
    }
    for (uint64_t from = access.begin; from < access.end;) {
        if (it == vtcm_.end() || it->first > from) {
            const uint64_t end = it == vtcm_.end() ? access.end : std::min(access.end, it->first);
            it = vtcm_.emplace_hint(it, from, Touched{.end = end, .reads = {}, .writes = {}});
        }
        join(waits, it->second.writes);
        it->second.reads[unit] = count;
        from = it->second.end;
        ++it;
    }
}

void StreamBuilder::add(Instruction instruction) {
    const size_t unit = at(unit_of(instruction.op));
    const auto count = static_cast<uint32_t>(done_[unit].size()) + 1;
    Progress wanted = {};
    for (const Access& access : accesses(instruction, {}))
        if (access.space == 0) touch(access, unit, count, wanted);
    wanted[unit] = 0;  // in order anyway
    for (size_t u = 0; u < kUnits; ++u) {
        Progress others = wanted;
        others[u] = 0;
        if (finish(done_, unit, others)[u] >= wanted[u]) wanted[u] = 0;
    }
    instruction.waits = wanted;
    done_[unit].push_back(finish(done_, unit, wanted));
    stream_.push_back(instruction);
}

void StreamBuilder::append(const Stream& stream) {
    for (const Instruction& instruction : stream) add(instruction);
}

Result<void> check_stream(const Stream& stream, const Bounds& bounds) {
    Progress before = {};
    for (size_t i = 0; i < stream.size(); ++i) {
        const Instruction& instruction = stream[i];
        if (instruction.op > Opcode::Multiply)
            return fail(ErrorCode::Malformed, "instruction %zu: there is no such operation", i);
        // Waits refer only to earlier instructions, so stream order is a valid execution order.
        for (size_t u = 0; u < kUnits; ++u)
            if (instruction.waits[u] > before[u])
                return fail(ErrorCode::Malformed,
                            "%s: waits for %u instructions of %s, of which %u come before it",
                            text_of(stream, i).c_str(), instruction.waits[u], kUnitNames[u], before[u]);
        if (auto checked = check_instruction(instruction, bounds); !checked)
            return fail_in(text_of(stream, i), std::move(checked.error()));
        ++before[at(unit_of(instruction.op))];
    }
    return {};
}

std::string find_hazard(const Stream& stream, const PassBounds& bounds) {
    std::array<std::vector<Progress>, kUnits> done;
    std::vector<Accesses> touched;
    std::vector<uint32_t> counts;
    for (size_t i = 0; i < stream.size(); ++i) {
        const size_t unit = at(unit_of(stream[i].op));
        const Progress before = finish(done, unit, stream[i].waits);
        touched.push_back(accesses(stream[i], bounds));
        for (size_t j = 0; j < i; ++j) {
            const size_t other = at(unit_of(stream[j].op));
            if (other != unit && before[other] < counts[j] && conflict(touched[i], touched[j]))
                return text_of(stream, i) + " does not wait for " + text_of(stream, j);
        }
        done[unit].push_back(before);
        counts.push_back(static_cast<uint32_t>(done[unit].size()));
    }
    return {};
}

}  // namespace tessera::npu
