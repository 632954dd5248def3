// Two steps: collect() records for each operand which instructions wrote its bytes; then stores and loads
// that can be omitted are determined in stream order, because an omitted store moves a write that later loads
// have to be checked against. Writers of VTCM are tracked byte by byte; DDR only between a transfer and its
// instruction.
#include "src/npu/direct_stream.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/npu/layout.h"
#include "src/npu/operands.h"

namespace tessera::npu {

namespace {

constexpr uint32_t kNobody = UINT32_MAX;
/// Up to this many rows, 4-bit weights are unpacked during multiplication; more rows share unpacked tiles.
constexpr uint32_t kFewRows = 8;
/// Alignment of tables whose entries are read as integers.
constexpr uint64_t kDirectAlignment = 16;

/// Bytes of VTCM that an instruction accesses: rows of row_bytes, `stride` apart. keeps_stride: the
/// instruction accepts another stride.
struct Piece {
    uint64_t vtcm, stride, rows, row_bytes;
    bool keeps_stride;

    uint64_t extent() const { return (rows - 1) * stride + row_bytes; }
    bool is_dense() const { return rows == 1 || stride == row_bytes; }
};

struct ByteRange {
    Region region;
    uint64_t begin, end;

    bool overlaps(const ByteRange& other) const {
        return region == other.region && begin < other.end && other.begin < end;
    }
};

ByteRange ddr_of(const Transfer& t) {
    return {t.region, t.ddr, t.ddr + (t.rows - uint64_t{1}) * t.ddr_stride + t.row_bytes};
}
bool goes_by_pass(const Transfer& t) { return t.limit != Transfer::Limit::None || t.past_stride != 0; }

/// The place of a piece in DDR, if this transfer covers all of it.
bool matches(const Piece& piece, const Transfer& t, Redirect& redirect) {
    if (goes_by_pass(t) || t.vtcm != piece.vtcm || t.ddr % kDirectAlignment != 0) return false;
    redirect = {static_cast<uint32_t>(piece.vtcm), t.region, t.ddr, piece.stride};
    if (t.rows == piece.rows && t.row_bytes == piece.row_bytes &&
        (t.rows == 1 || t.vtcm_stride == piece.stride)) {
        if (piece.rows > 1) redirect.stride = t.ddr_stride;
        return piece.keeps_stride || redirect.stride == piece.stride;
    }
    // The same contiguous bytes, in rows of another length.
    const bool is_dense = t.rows == 1 || (t.vtcm_stride == t.row_bytes && t.ddr_stride == t.row_bytes);
    return is_dense && piece.is_dense() && uint64_t{t.rows} * t.row_bytes == piece.extent();
}

class Resolver {
  public:
    Resolver(const Stream& stream, std::span<const std::byte> constants)
        : stream_(stream), constants_(constants), steps_(stream.size()) {}

    DirectStream resolve() {
        for (uint32_t i = 0; i < stream_.size(); ++i) collect(i);
        for (uint32_t i = 0; i < stream_.size(); ++i) decide_stores(i);
        for (uint32_t i = 0; i < stream_.size(); ++i) decide_loads(i);
        return write();
    }

  private:
    /// A piece and the transfer that loads or stores it.
    struct Use {
        Piece piece;
        uint32_t transfer;
        Redirect redirect;
    };
    /// An input operand, redirected with all its pieces or not at all.
    struct Operand {
        std::vector<Use> uses;
        std::vector<uint32_t> writers;  // writers of its bytes
        bool is_direct = false;
    };
    struct Step {
        std::vector<Operand> operands;  // for a Multiply, the weights are first
        std::vector<Use> results;       // pieces of the result that are stored
        std::vector<Piece> pieces;      // pieces of the result
        uint32_t expand = kNobody;      // for a Multiply: the Expand that produces its weights
        bool is_read = false;           // the result has a reader other than stores: it must be in VTCM
        bool is_left_out = false;       // a store whose piece is computed at its destination
        // For a load: end of the search for a later write to its source, and the write found.
        uint32_t looked_up_to = 0, written_at = kNobody;
    };

    const Transfer& transfer(uint32_t i) const { return stream_[i].transfer; }
    bool is(uint32_t i, Opcode op) const { return stream_[i].op == op; }

    /// The pieces of one access. Lookups that update a part of their result are not handled (reads_result).
    static std::vector<Piece> pieces_of(const Instruction& it, const Access& access) {
        const uint64_t n_bytes = access.end - access.begin;
        if (it.op == Opcode::Interleave && !access.is_write) {
            const Interleave& i = it.interleave;
            return {{access.begin, i.stride, i.n_k, i.n_n, true}};
        }
        if (it.op == Opcode::Expand && !access.is_write) {
            const uint64_t row = n_bytes / it.expand.n_tiles;
            return {{access.begin, row, it.expand.n_tiles, row, true}};
        }
        if (it.op != Opcode::Multiply) return {{access.begin, n_bytes, 1, n_bytes, false}};
        const Multiply& m = it.multiply;
        if (access.begin == m.weights && !access.is_write) {
            const uint64_t row = uint64_t{m.k_tiles} * kWeightTileBytes;
            return {{access.begin, row, m.n_tiles, row, true}};
        }
        if (access.begin == m.records && !access.is_write)
            return {{access.begin, n_bytes, 1, n_bytes, false}};
        const uint64_t planes = access.is_write ? m.planes_out : m.planes_in;
        const uint64_t n_tiles = access.is_write ? m.n_tiles : m.k_tiles;
        std::vector<Piece> pieces;
        for (uint64_t row = 0; row < m.rows; row += kTileRows)
            for (uint64_t plane = 0; plane < planes; ++plane) {
                const uint64_t at = (row / kTileRows * planes + plane) * n_tiles * kActTileBytes;
                const uint64_t rows = std::min<uint64_t>(m.rows - row, kTileRows);
                pieces.push_back({access.begin + at, kActTileBytes, n_tiles, rows * kTileChannels, true});
            }
        return pieces;
    }

    /// Whether the instruction reads the previous content of its result.
    static bool reads_result(const Instruction& it) {
        const LookupValues& l = it.lookup;
        if (it.op == Opcode::Interleave) return !it.interleave.first;
        return it.op == Opcode::Lookup && (l.begin > 0 || l.end < uint32_t{1} << (8 * l.planes_x));
    }
    static bool is_sums(const Instruction& it, const Access& access) {
        return it.op == Opcode::Multiply && access.begin == it.multiply.sums &&
               (!it.multiply.first || !it.multiply.last);
    }

    void collect(uint32_t i) {
        const Instruction& it = stream_[i];
        const Accesses touched = accesses(it, {});
        for (const Access& access : touched) {
            if (access.space != 0 || access.is_write) continue;
            if (is(i, Opcode::Store))
                collect_store(i, access);
            else if (is_sums(it, access))
                mark_read(writers_of(access.begin, access.end));
            else
                collect_operand(i, access, shares_bytes(access, touched));
        }
        for (const Access& access : touched) {
            if (access.space != 0 || !access.is_write) continue;
            if (unit_of(it.op) == Unit::Dma) {
                set_writer(access.begin, access.end, i);
                continue;
            }
            if (reads_result(it)) mark_read(writers_of(access.begin, access.end));
            if (reads_result(it) || is_sums(it, access)) steps_[i].is_read = true;
            if (!steps_[i].is_read)
                for (const Piece& piece : pieces_of(it, access)) steps_[i].pieces.push_back(piece);
            set_writer(access.begin, access.end, i);
        }
    }

    /// Whether another operand overlaps the access, which would make a redirect ambiguous.
    static bool shares_bytes(const Access& access, const Accesses& touched) {
        return std::any_of(touched.begin(), touched.end(),
                           [&](const Access& other) { return &other != &access && other.overlaps(access); });
    }

    void collect_operand(uint32_t i, const Access& access, bool is_shared) {
        Operand operand;
        operand.writers = writers_of(access.begin, access.end);
        const Instruction& it = stream_[i];
        const bool is_weights = it.op == Opcode::Multiply && access.begin == it.multiply.weights;
        if (is_weights && !is_shared && it.multiply.rows <= kFewRows && operand.writers.size() == 1 &&
            is_expand_of(operand.writers[0], it.multiply))
            steps_[i].expand = operand.writers[0];
        for (const Piece& piece : pieces_of(it, access)) {
            const auto writers = writers_of(piece.vtcm, piece.vtcm + piece.extent());
            Use use{piece, kNobody, {}};
            if (!is_shared && writers.size() == 1 && is(writers[0], Opcode::Load) &&
                matches(piece, transfer(writers[0]), use.redirect))
                use.transfer = writers[0];
            operand.uses.push_back(use);
        }
        if (steps_[i].expand == kNobody || !is_weights) mark_read(operand.writers, true);
        auto& operands = steps_[i].operands;
        operands.insert(is_weights ? operands.begin() : operands.end(), std::move(operand));
    }

    bool is_expand_of(uint32_t i, const Multiply& m) const {
        const Expand& e = stream_[i].expand;
        return is(i, Opcode::Expand) && e.weights == m.weights && e.n_tiles == m.n_tiles &&
               e.k_tiles == m.k_tiles;
    }

    /// Accepts a store if its bytes are one piece of one instruction's result with one destination.
    void collect_store(uint32_t i, const Access& access) {
        const auto writers = writers_of(access.begin, access.end);
        if (writers.size() == 1) {
            Step& from = steps_[writers[0]];
            const bool is_first = std::none_of(from.results.begin(), from.results.end(), [&](const Use& use) {
                return use.piece.vtcm == access.begin;
            });
            for (const Piece& piece : from.pieces) {
                Use use{piece, i, {}};
                if (!is_first || !matches(piece, transfer(i), use.redirect)) continue;
                from.results.push_back(use);
                return;
            }
        }
        mark_read(writers);
    }

    /// The instructions that last wrote any of these bytes.
    std::vector<uint32_t> writers_of(uint64_t begin, uint64_t end) const {
        std::vector<uint32_t> out;
        auto at = written_.upper_bound(begin);
        if (at != written_.begin()) --at;
        for (; at != written_.end() && at->first < end; ++at)
            if (at->second.end > begin && std::find(out.begin(), out.end(), at->second.by) == out.end())
                out.push_back(at->second.by);
        return out;
    }
    void set_writer(uint64_t begin, uint64_t end, uint32_t by) {
        auto at = written_.upper_bound(begin);
        if (at != written_.begin()) --at;
        while (at != written_.end() && at->first < end) {
            if (at->second.end <= begin) {
                ++at;
                continue;
            }
            const auto [first, old] = *at;
            at = written_.erase(at);
            if (first < begin) written_.emplace(first, Written{begin, old.by});
            if (old.end > end) at = written_.emplace(end, Written{old.end, old.by}).first;
        }
        written_[begin] = {end, by};
    }
    /// Marks results that must be in VTCM; with but_loads, loads are excluded because they may still be
    /// omitted.
    void mark_read(const std::vector<uint32_t>& writers, bool but_loads = false) {
        for (const uint32_t w : writers)
            if (!but_loads || !is(w, Opcode::Load)) steps_[w].is_read = true;
    }

    /// A store may happen when its piece is computed if no instruction accesses that memory in between.
    void decide_stores(uint32_t i) {
        Step& step = steps_[i];
        if (step.is_read) step.results.clear();
        std::erase_if(step.results, [&](const Use& use) { return is_touched(i, use.transfer); });
        for (const Use& use : step.results) steps_[use.transfer].is_left_out = true;
    }

    bool is_touched(uint32_t from, uint32_t store) const {
        const ByteRange range = ddr_of(transfer(store));
        for (uint32_t k = from + 1; k < store; ++k)
            if (touches(k, range) || stores_to(k, range)) return true;
        return false;
    }
    /// Whether a transfer touches the range; one with pass-dependent offsets may touch the whole region.
    bool touches(uint32_t k, const ByteRange& range) const {
        if (unit_of(stream_[k].op) != Unit::Dma) return false;
        const Transfer& t = transfer(k);
        return goes_by_pass(t) ? t.region == range.region : ddr_of(t).overlaps(range);
    }
    bool stores_to(uint32_t k, const ByteRange& range) const {
        const auto& results = steps_[k].results;
        return std::any_of(results.begin(), results.end(),
                           [&](const Use& use) { return ddr_of(transfer(use.transfer)).overlaps(range); });
    }

    /// An operand may be read from DDR if no write to it occurs between its load and the instruction, neither
    /// by a remaining store nor by an instruction that writes to DDR directly.
    void decide_loads(uint32_t i) {
        Step& step = steps_[i];
        for (Operand& operand : step.operands) {
            operand.is_direct = std::all_of(operand.uses.begin(), operand.uses.end(), [&](const Use& use) {
                return use.transfer != kNobody && !is_written(use.transfer, i);
            });
            if (is(i, Opcode::Multiply) && stream_[i].multiply.planes_in == 2)
                operand.is_direct &= has_equal_planes(operand);
        }
        if (step.expand == kNobody) return;
        const std::vector<Operand>& packed = steps_[step.expand].operands;
        const bool is_fused = std::all_of(packed.begin(), packed.end(), [](const Operand& operand) {
            return operand.is_direct && operand.uses[0].redirect.region == Region::Constants;
        });
        if (is_fused) return;
        steps_[step.expand].is_read = true;
        step.expand = kNobody;
    }

    /// Both planes must have the same stride, because the instruction takes only one.
    static bool has_equal_planes(const Operand& operand) {
        for (size_t u = 1; u < operand.uses.size(); u += 2)
            if (operand.uses[u].redirect.stride != operand.uses[u - 1].redirect.stride) return false;
        return true;
    }

    bool is_written(uint32_t load, uint32_t reader) {
        const ByteRange range = ddr_of(transfer(load));
        Step& step = steps_[load];
        if (range.region == Region::Constants) return false;
        for (uint32_t k = std::max(step.looked_up_to, load) + 1; k <= reader && step.written_at == kNobody;
             ++k)
            if ((is(k, Opcode::Store) && !steps_[k].is_left_out && touches(k, range)) || stores_to(k, range))
                step.written_at = k;
        step.looked_up_to = std::max(step.looked_up_to, reader);
        return step.written_at <= reader;
    }

    /// Whether the instruction remains after all readers of its result are decided.
    bool is_done(uint32_t i) const {
        const Step& step = steps_[i];
        if (is(i, Opcode::Load)) return step.is_read;
        if (is(i, Opcode::Expand)) return step.is_read || !step.results.empty();
        return !step.is_left_out;
    }

    DirectStream write() {
        for (uint32_t i = 0; i < stream_.size(); ++i) {
            if (is(i, Opcode::Load) || !is_done(i)) continue;
            const Step& step = steps_[i];
            for (size_t o = step.expand != kNobody ? 1 : 0; o < step.operands.size(); ++o)
                if (!step.operands[o].is_direct) mark_read(step.operands[o].writers);
        }
        DirectStream out;
        for (uint32_t i = 0; i < stream_.size(); ++i)
            if (is_done(i)) out.instructions.push_back(write_one(i, out.redirects));
        return out;
    }

    /// Larger multipliers could overflow where codes are multiplied before scaling.
    bool is_small(const Use& mult) const {
        for (uint64_t row = 0; row < mult.piece.rows; ++row) {
            const auto bytes =
                constants_.subspan(mult.redirect.at + row * mult.redirect.stride, mult.piece.row_bytes);
            for (const std::byte b : bytes) {
                const int m = static_cast<int8_t>(b);
                if (m < -15 || m > 16) return false;
            }
        }
        return true;
    }

    DirectInstruction write_one(uint32_t i, std::vector<Redirect>& redirects) const {
        const Step& step = steps_[i];
        DirectInstruction out{.instruction = stream_[i],
                              .first_redirect = static_cast<uint32_t>(redirects.size())};
        if (step.expand != kNobody) {
            const std::vector<Operand>& packed = steps_[step.expand].operands;
            out.block = stream_[step.expand].expand.block;
            out.mult = packed[1].uses[0].redirect;
            out.is_small = is_small(packed[1].uses[0]);
            redirects.push_back(packed[0].uses[0].redirect);
            redirects.back().vtcm = stream_[i].multiply.weights;
        }
        for (size_t o = step.expand != kNobody ? 1 : 0; o < step.operands.size(); ++o)
            if (step.operands[o].is_direct)
                for (const Use& use : step.operands[o].uses) redirects.push_back(use.redirect);
        for (const Use& use : step.results) redirects.push_back(use.redirect);
        out.n_redirects = static_cast<uint32_t>(redirects.size()) - out.first_redirect;
        return out;
    }

    const Stream& stream_;
    std::span<const std::byte> constants_;
    std::vector<Step> steps_;
    struct Written {
        uint64_t end;
        uint32_t by;
    };
    std::map<uint64_t, Written> written_;  // VTCM, by first byte
};

}  // namespace

DirectStream direct_stream(const Stream& stream, std::span<const std::byte> constants) {
    return Resolver(stream, constants).resolve();
}

}  // namespace tessera::npu
