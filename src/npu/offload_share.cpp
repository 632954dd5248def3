// Sums over the fields of operations: every weight of an operation counts as a product.
#include "src/npu/offload_share.h"

#include <algorithm>

namespace tessera::npu {

namespace {

struct AddWeights {
    const record::Program& program;
    Work& work;
    int64_t n_used = 1;  // experts of the matrix that a token uses

    void operator()(FieldName, record::WeightId id) {
        if (!id) return;
        const Weight& w = program[id].view;
        const int64_t n = w.n_expert > 0 ? n_used : 1;
        work.products += n * w.n_out * w.n_in;
        work.weight_bytes += n * w.n_out * static_cast<int64_t>(w.row_bytes);
    }
    void operator()(FieldName, const record::Read& role) {
        if (!role.value) return;  // a layer without RoPE reads no angles
        const record::Slot& slot = program[program[role.value].slot];
        if (slot.is_routes()) n_used = slot.dim;
    }
    template <class... Other>
    void operator()(FieldName, const Other&...) {}
};

}  // namespace

Work& Work::operator+=(const Work& other) {
    n_ops += other.n_ops;
    products += other.products;
    weight_bytes += other.weight_bytes;
    return *this;
}

Work work_of(const record::Program& program, const record::Op& op, int64_t n_ctx) {
    Work work{.n_ops = 1};
    if (std::holds_alternative<record::EmbedOp>(op.verb)) return work;
    op.fields(AddWeights{program, work});
    if (const auto* attend = std::get_if<record::AttendOp>(&op.verb)) {
        const int64_t n_seen = attend->window > 0 ? std::min(attend->window, n_ctx) : n_ctx;
        const KvLayer& kv = program[attend->cache].where;
        work.products += attend->n_head * (kv.k_dim + kv.v_dim) * n_seen;
    }
    return work;
}

OffloadShare offload_share(const record::Program& program, const Partition& partition, int64_t n_ctx) {
    OffloadShare share;
    for (size_t i = 0; i < program.ops.size(); ++i)
        (partition.ops[i].segment >= 0 ? share.device : share.processor) +=
            work_of(program, program.ops[i], n_ctx);
    return share;
}

}  // namespace tessera::npu
