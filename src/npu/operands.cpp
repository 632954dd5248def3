// Operands of each instruction. Sizes are computed from fields that wrong_fields() has accepted, so no
// product overflows.
#include "src/npu/operands.h"

#include <algorithm>
#include <cmath>

#include "src/npu/attention.h"
#include "src/npu/layout.h"

namespace tessera::npu {

namespace {

constexpr const char* kNames[] = {"load",   "store",   "expand", "interleave", "transpose", "norm",
                                  "rotate", "softmax", "lookup", "add",        "mul",       "multiply"};
static_assert(std::size(kNames) == kOpcodes);

/// Large enough for any tensor, and products of three fit in 64 bits.
constexpr uint32_t kMost = 1 << 20;
/// Number of values that one thread processes at a time.
constexpr uint32_t kMostInRow = 1 << 16;

uint64_t extent(uint64_t rows, uint64_t stride, uint64_t row_bytes) {
    return (rows - 1) * stride + row_bytes;
}

/// End of the DDR bytes that a transfer touches in a pass.
uint64_t end_in_pass(const Transfer& t, uint64_t n_valid, uint64_t n_past) {
    uint64_t rows = t.rows, row_bytes = t.row_bytes;
    const uint64_t valid = n_valid > t.first_row ? n_valid - t.first_row : 0;
    if (t.limit == Transfer::Limit::Rows) rows = std::min(rows, valid);
    if (t.limit == Transfer::Limit::Bytes) row_bytes = std::min(row_bytes, valid);
    if (rows == 0 || row_bytes == 0) return 0;
    return t.ddr + n_past * t.past_stride + extent(rows, t.ddr_stride, row_bytes);
}

/// The maximum over all passes: the end is linear in the number of preceding positions, so the extremes
/// suffice.
uint64_t end_in_any_pass(const Transfer& t, const PassBounds& bounds) {
    const auto n_tok = static_cast<uint64_t>(std::min(bounds.n_tok, bounds.n_ctx));
    const auto n_ctx = static_cast<uint64_t>(bounds.n_ctx);
    const uint64_t most = t.limit == Transfer::Limit::Rows ? t.rows : t.row_bytes;
    uint64_t end = 0;
    for (const uint64_t n_valid : {uint64_t{1}, uint64_t{t.first_row} + 1, t.first_row + most, n_tok}) {
        const uint64_t held = std::min(std::max(n_valid, uint64_t{1}), n_tok);
        end = std::max(end, end_in_pass(t, held, n_ctx - held));
    }
    return end;
}

bool in_range(uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; }

bool is_sound(const Encoding& e) {
    return (e.bits == 8 || e.bits == 16) && std::isfinite(e.scale) && e.scale > 0 && e.zero >= 0 &&
           e.zero <= e.max();
}
bool is_sound(const Multiplier& m) { return m.mult >= 0 && m.shift >= 1 && m.shift <= 62; }

/// The operands of each operation, and checks of its fields.
struct Operands {
    Accesses out;

    void read(uint64_t begin, uint64_t bytes) { out.add(0, begin, bytes, false); }
    void write(uint64_t begin, uint64_t bytes) { out.add(0, begin, bytes, true); }

    void operator()(const Transfer&) {}
    void operator()(const Expand& e) {
        const uint64_t n_tiles = uint64_t{e.n_tiles} * e.k_tiles;
        read(e.packed, n_tiles * kNibbleTileBytes);
        read(e.mult, uint64_t{e.n_tiles} * static_cast<uint64_t>(n_mult_bytes(e.k_tiles, e.block)));
        write(e.weights, n_tiles * kWeightTileBytes);
    }
    void operator()(const Interleave& i) {
        read(i.bytes, extent(i.n_k, i.stride, i.n_n));
        write(i.weights, uint64_t{i.n_tiles} * i.k_tiles * kWeightTileBytes);
        write(i.records, uint64_t{i.n_tiles} * kRecordTileBytes);
    }
    void operator()(const Transpose& t) {
        read(t.x, uint64_t{t.channel_tiles} * t.rows * kTileChannels);
        write(t.y, uint64_t{t.channel_tiles} * kActTileBytes);
    }
    void operator()(const NormRows& n) {
        read(n.x, act_rows_bytes(n.factors.x, n.rows, n.dim));
        read(n.gamma, uint64_t{n.n} * 2);
        write(n.y, act_rows_bytes(n.factors.y, n.rows, n.dim));
    }
    void operator()(const RotateRows& r) {
        read(r.x, act_rows_bytes(r.factors.x, r.rows, r.dim));
        read(r.cos_sin, uint64_t{r.rows} * static_cast<uint64_t>(r.factors.n_rot) * 2);
        write(r.y, act_rows_bytes(r.factors.y, r.rows, r.dim));
    }
    void operator()(const SoftmaxRows& s) {
        read(s.x, act_rows_bytes({.bits = static_cast<int>(8 * s.planes_x)}, s.rows, s.dim));
        read(s.tables, sizeof(ExpTables));
        write(s.y, act_rows_bytes({}, s.rows, s.dim));
    }
    void operator()(const LookupValues& l) {
        read(l.x, uint64_t{l.planes_x} * l.n);
        read(l.table, uint64_t{l.end - l.begin} * 2);
        write(l.y, uint64_t{l.planes_y} * l.n);
    }
    void operator()(const AddValues& p) { pair(p, p.factors.a, p.factors.b, p.factors.y); }
    void operator()(const MulValues& p) { pair(p, p.factors.a, p.factors.b, p.factors.y); }
    void operator()(const Multiply& m) {
        const uint64_t row_tiles = (uint64_t{m.rows} + kTileRows - 1) / kTileRows;
        read(m.act, row_tiles * m.planes_in * m.k_tiles * kActTileBytes);
        read(m.weights, uint64_t{m.n_tiles} * m.k_tiles * kWeightTileBytes);
        if (m.last) {
            read(m.records, uint64_t{m.n_tiles} * kRecordTileBytes);
            write(m.out, row_tiles * m.planes_out * m.n_tiles * kActTileBytes);
        }
        if (!m.first || !m.last) out.add(0, m.sums, row_tiles * m.n_tiles * kSumTileBytes, !m.last);
    }

    template <class Pair>
    void pair(const Pair& p, const Encoding& a, const Encoding& b, const Encoding& y) {
        read(p.a, uint64_t{p.n} * static_cast<uint64_t>(a.bits / 8));
        read(p.b, uint64_t{p.n} * static_cast<uint64_t>(b.bits / 8));
        write(p.y, uint64_t{p.n} * static_cast<uint64_t>(y.bits / 8));
    }
};

struct Wrong {
    const char* operator()(const Transfer& t) const {
        if (!in_range(t.rows, 1, kMost) || t.row_bytes == 0 || t.first_row > kMost) return "its rows";
        if (t.region > Region::Cache || t.ddr > uint64_t{1} << 48 || t.ddr_stride > uint64_t{1} << 32)
            return "its place in DDR";
        return t.limit > Transfer::Limit::Bytes ? "its limit" : nullptr;
    }
    const char* operator()(const Expand& e) const {
        if (!in_range(e.n_tiles, 1, kMost) || !in_range(e.k_tiles, 1, kMost)) return "its number of tiles";
        return e.block == 16 || e.block == 32 || e.block == 64 ? nullptr : "its block";
    }
    const char* operator()(const Interleave& i) const {
        if (!in_range(i.n_tiles, 1, kMost) || !in_range(i.k_tiles, 1, kMost)) return "its number of tiles";
        if (!in_range(i.n_n, 1, i.n_tiles * 32) || i.stride < i.n_n || i.n_k == 0 ||
            uint64_t{i.k_first} + i.n_k > uint64_t{i.k_tiles} * 32)
            return "its number of bytes";
        if (!is_sound(i.factor) || (i.hmx && i.factor.mult > 65535)) return "its factor";
        return i.weights % 128 || i.records % 16 ? "the alignment of its operands" : nullptr;
    }
    const char* operator()(const Transpose& t) const {
        if (!in_range(t.rows, 1, kTileRows)) return "its number of rows";
        return in_range(t.channel_tiles, 1, kMost) ? nullptr : "its number of tiles";
    }
    const char* operator()(const NormRows& n) const {
        const NormFactors& f = n.factors;
        if (const char* wrong = rows(n.rows, n.dim, n.n)) return wrong;
        if (!is_sound(f.x) || !is_sound(f.y)) return "its encodings";
        if (!std::isfinite(f.eps) || f.eps < 0 || !in_range(static_cast<uint32_t>(f.zero_gamma), 0, 65535) ||
            !is_sound(f.to_y))
            return "its factor";
        return n.gamma % 2 ? "the alignment of its operands" : nullptr;
    }
    const char* operator()(const RotateRows& r) const {
        const RopeFactors& f = r.factors;
        if (f.head_dim < 2 || f.n_rot < 2 || f.n_rot > f.head_dim || f.n_rot % 2) return "its heads";
        if (const char* wrong = rows(r.rows, r.dim, static_cast<uint32_t>(f.head_dim))) return wrong;
        if (!is_sound(f.x) || !is_sound(f.y)) return "its encodings";
        if (f.pairs > RopePairs::Halves) return "its pairs";
        if (!is_sound(f.rotated) || !is_sound(f.kept)) return "its factor";
        return r.cos_sin % 2 ? "the alignment of its operands" : nullptr;
    }
    const char* operator()(const SoftmaxRows& s) const {
        if (const char* wrong = rows(s.rows, s.dim, 1)) return wrong;
        if (s.first_row > kMost) return "its first row";
        if (!in_range(s.planes_x, 1, 2)) return "its planes";
        return s.tables % 4 ? "the alignment of its operands" : nullptr;
    }
    const char* operator()(const LookupValues& l) const {
        if (!in_range(l.n, 1, 1u << 30)) return "its number of values";
        if (l.begin >= l.end || l.end > 65536) return "its entries";
        if (!in_range(l.planes_x, 1, 2) || !in_range(l.planes_y, 1, 2)) return "its planes";
        return l.table % 2 ? "the alignment of its operands" : nullptr;
    }
    const char* operator()(const AddValues& p) const {
        const npu::Add::Factors& f = p.factors;
        if (const char* wrong = values(p.n, f.a, f.b, f.y)) return wrong;
        constexpr int64_t kMostFactor = int64_t{1} << 31;
        const bool fits = f.mult_a >= 0 && f.mult_a <= kMostFactor && f.mult_b >= 0 &&
                          f.mult_b <= kMostFactor && f.shift >= 1 && f.shift <= 62;
        return fits ? nullptr : "its factor";
    }
    const char* operator()(const MulValues& p) const {
        const npu::Mul::Factors& f = p.factors;
        if (const char* wrong = values(p.n, f.a, f.b, f.y)) return wrong;
        return is_sound(f.product) ? nullptr : "its factor";
    }
    const char* operator()(const Multiply& m) const {
        if (!in_range(m.rows, 1, kMost)) return "its number of rows";
        if (!in_range(m.n_tiles, 1, kMost) || !in_range(m.k_tiles, 1, kMost)) return "its number of tiles";
        if (!in_range(m.packet_k_tiles, 1, kMost)) return "its packets";
        if (!in_range(m.planes_in, 1, 2) || !in_range(m.planes_out, 1, 2)) return "its planes";
        if (m.zero_out < 0 || m.zero_out >> (8 * m.planes_out) != 0) return "its zero point";
        if (m.act % kActTileBytes || m.out % kActTileBytes || m.weights % 128 || m.records % 16 || m.sums % 8)
            return "the alignment of its operands";
        return nullptr;
    }

    static const char* rows(uint32_t n_rows, uint32_t dim, uint32_t piece) {
        if (!in_range(n_rows, 1, kTileRows)) return "its number of rows";
        return in_range(dim, 1, kMostInRow) && piece >= 1 && dim % piece == 0 ? nullptr : "its values";
    }
    static const char* values(uint32_t n, const Encoding& a, const Encoding& b, const Encoding& y) {
        if (!in_range(n, 1, 1u << 30)) return "its number of values";
        return is_sound(a) && is_sound(b) && is_sound(y) ? nullptr : "its encodings";
    }
};

}  // namespace

Accesses accesses(const Instruction& instruction, const PassBounds& bounds) {
    Operands operands;
    Instruction::visit(instruction, operands);
    if (unit_of(instruction.op) == Unit::Dma) {
        const Transfer& t = instruction.transfer;
        const bool is_load = instruction.op == Opcode::Load;
        operands.out.add(0, t.vtcm, extent(t.rows, t.vtcm_stride, t.row_bytes), is_load);
        const uint64_t end = end_in_any_pass(t, bounds);
        if (end > t.ddr) operands.out.add(1 + static_cast<int>(t.region), t.ddr, end - t.ddr, !is_load);
    }
    return operands.out;
}

const char* wrong_fields(const Instruction& instruction) {
    if (instruction.op == Opcode::Store && instruction.transfer.region == Region::Constants)
        return "a store there";  // constants may be a read-only file mapping
    return Instruction::visit(instruction, Wrong{});
}

const char* opcode_name(Opcode op) { return kNames[static_cast<size_t>(op)]; }

}  // namespace tessera::npu
