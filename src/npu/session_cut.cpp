// Allowed boundaries: behind a layer, a residual add or a product. Never between keys and the attention that
// reads them, nor before the product that reads attention's output, whose heads may be padded.
#include "src/npu/session_cut.h"

#include <optional>

#include "src/npu/weight_blob.h"

namespace tessera::npu {

namespace {

using record::Program;

/// A visitor that sums up the bytes an operation needs.
struct LeastBytes {
    const Program& program;
    const Recipe& recipe;
    int64_t n_ctx;
    int64_t n_bytes = 0;

    void operator()(FieldName, record::WeightId id) {
        if (!id) return;
        const record::Param<Weight>& w = program[id];
        n_bytes += weight_blob_bytes(recipe.weight_of(w.tensor.name), w.view.n_out, w.view.n_in);
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}

    void add(const record::Op& op) {
        op.fields(*this);
        const auto* qkv = std::get_if<record::QkvOp>(&op.verb);
        if (!qkv) return;
        const KvLayer& where = program[qkv->cache].where;
        n_bytes += 2 * where.n_head_kv * where.k_dim * n_ctx;
    }
};

/// The kind of boundary behind operation i, which is not the last one of its segment.
std::optional<SessionPiece::End> end_behind(const Program& program, int32_t i) {
    const record::Op &op = program.ops[static_cast<size_t>(i)],
                     &next = program.ops[static_cast<size_t>(i + 1)];
    if (op.layer < 0) return std::nullopt;
    if (op.layer != next.layer) return SessionPiece::End::Layer;
    const auto* linear = std::get_if<record::LinearOp>(&op.verb);
    const bool adds = std::holds_alternative<record::AddNormOp>(op.verb) || (linear && linear->product.add);
    if (adds) return SessionPiece::End::Part;
    if (linear || std::holds_alternative<record::FfnGateUpOp>(op.verb)) return SessionPiece::End::Product;
    return std::nullopt;
}

}  // namespace

std::vector<SessionPiece> session_pieces(const Program& program, std::span<const DeviceRange> ranges,
                                         const Recipe& recipe, int64_t n_ctx) {
    std::vector<SessionPiece> pieces;
    for (size_t s = 0; s < ranges.size(); ++s) {
        int32_t first = ranges[s].first_op;
        LeastBytes least{program, recipe, n_ctx};
        for (int32_t i = first; i <= ranges[s].last_op; ++i) {
            least.add(program.ops[static_cast<size_t>(i)]);
            const auto end = i == ranges[s].last_op ? SessionPiece::End::Layer : end_behind(program, i);
            if (!end) continue;
            pieces.push_back({static_cast<int32_t>(s), first, i, *end, least.n_bytes});
            first = i + 1;
            least.n_bytes = 0;
        }
    }
    return pieces;
}

std::vector<DeviceRange> ranges_of(const Program& program, std::span<const SessionPiece> pieces) {
    std::vector<DeviceRange> out;
    for (size_t i = 0; i < pieces.size();) {
        size_t end = i + 1;
        while (end < pieces.size() && pieces[end].segment == pieces[i].segment) ++end;
        out.push_back(range_of(program, pieces[i].first_op, pieces[end - 1].last_op));
        i = end;
    }
    return out;
}

}  // namespace tessera::npu
