// Attention that keeps scores in VTCM. An item is one row tile of one head. Instructions are in the execution
// order of each unit, and StreamBuilder adds the waits: the matrix unit alternates between the scores of the
// next item and the values of the current one, which wait for the vector unit's softmax.
#include "src/npu/attention_stream.h"

#include "src/npu/attention.h"
#include "src/npu/layout.h"
#include "src/npu/stream.h"
#include "src/npu/vtcm.h"

namespace tessera::npu {

namespace {

Result<void> place_product(AttentionProduct& it, int kv_buffers, const HtpDevice& device,
                           VtcmAllocator& vtcm) {
    it.packet_k_tiles = packet_tiles(it.k_tiles, it.k_tiles, device);
    const bool has_span = device.vtcm_span_bytes > 0;
    const int64_t act_unit = has_span ? it.packet_k_tiles * kActTileBytes : kActTileBytes;
    const int64_t weight_unit = has_span ? it.packet_k_tiles * kWeightTileBytes : 128;
    const int64_t weight_bytes = it.n_tiles * it.k_tiles * kWeightTileBytes;
    TSR_TRY(it.bytes, vtcm.take("keys or values", weight_bytes, 128));
    for (int i = 0; i < 2; ++i) {
        TSR_TRY(it.act[i],
                vtcm.take("queries or probabilities", it.planes_in * it.k_tiles * kActTileBytes, act_unit));
        TSR_TRY(it.out[i],
                vtcm.take("scores or outputs", it.planes_out * it.n_tiles * kActTileBytes, kActTileBytes));
        if (i >= kv_buffers) continue;
        TSR_TRY(it.weights[i], vtcm.take("weights", weight_bytes, weight_unit));
        TSR_TRY(it.records[i], vtcm.take("factors of outputs", it.n_tiles * kRecordTileBytes, 128));
    }
    return {};
}

Result<AttentionPlan> place_buffers(const AttentionShape& shape, const HtpDevice& device, int kv_buffers) {
    AttentionPlan plan{};
    plan.kv_buffers = kv_buffers;
    plan.scores.n_tiles = plan.values.k_tiles = shape.ctx_tiles();
    plan.scores.k_tiles = plan.values.n_tiles = shape.dim_tiles();
    plan.scores.planes_in = shape.planes_q;
    plan.scores.planes_out = shape.planes_scores;
    plan.values.planes_out = shape.planes_out;
    VtcmAllocator vtcm(device.vtcm_bytes);
    TSR_TRY(plan.tables, vtcm.take("tables", static_cast<int64_t>(sizeof(ExpTables)), 128));
    TSR_TRY_VOID(place_product(plan.scores, kv_buffers, device, vtcm));
    TSR_TRY_VOID(place_product(plan.values, kv_buffers, device, vtcm));
    plan.vtcm_bytes = vtcm.peak();
    return plan;
}

class AttentionWriter {
  public:
    AttentionWriter(const AttentionShape& shape, const AttentionPlan& plan, const AttentionPlaces& places)
        : shape_(shape), plan_(plan), places_(places) {}

    Stream write() {
        load_tables();
        load_cached(0);
        interleave(0);
        begin(0);
        const int64_t n = shape_.n_head * shape_.row_tiles();
        for (int64_t i = 0; i < n; ++i) {
            const int64_t next_group = group_of(i) + 1;
            const bool goes_on = i + 1 < n, ends_group = goes_on && group_of(i + 1) == next_group;
            const bool prepares =
                plan_.kv_buffers == 2 && i % items_of_group() == 0 && next_group < shape_.n_head_kv;
            // With a single buffer, the weights of this group stay in use until its last values are
            // multiplied.
            const bool begins_late = ends_group && plan_.kv_buffers == 1;
            if (prepares) load_cached(next_group);
            softmax(i);
            if (prepares) interleave(next_group);
            if (goes_on && !begins_late) begin(i + 1);
            weigh(i);
            // Stored one item late, so that the load of the next queries does not queue behind it.
            if (i > 0) store(i - 1);
            if (!begins_late) continue;
            load_cached(next_group);
            interleave(next_group);
            begin(i + 1);
        }
        store(n - 1);
        return builder_.take();
    }

  private:
    int64_t items_of_group() const { return shape_.n_head / shape_.n_head_kv * shape_.row_tiles(); }
    int64_t group_of(int64_t item) const { return item / items_of_group(); }

    Instruction instruction_of(Opcode op) const {
        Instruction it;
        it.op = op;
        return it;
    }
    /// Moves rows that are ddr_stride apart in DDR and contiguous in VTCM.
    void move(Opcode op, Region region, uint64_t ddr, int64_t ddr_stride, uint32_t vtcm, int64_t rows,
              int64_t row_bytes) {
        Instruction it = instruction_of(op);
        it.frees_operands = op == Opcode::Store;
        it.transfer = {.ddr = ddr,
                       .ddr_stride = static_cast<uint64_t>(ddr_stride),
                       .vtcm = vtcm,
                       .vtcm_stride = static_cast<uint32_t>(row_bytes),
                       .rows = static_cast<uint32_t>(rows),
                       .row_bytes = static_cast<uint32_t>(row_bytes),
                       .region = region,
                       .limit = {},
                       .past_stride = 0,
                       .first_row = 0};
        builder_.add(it);
    }

    void load_tables() {
        move(Opcode::Load, Region::Constants, places_.tables, 0, plan_.tables, 1,
             static_cast<int64_t>(sizeof(ExpTables)));
    }
    /// Keys are stored by channel, values by position.
    void load_cached(int64_t group) {
        const auto of_head = static_cast<uint64_t>(group * shape_.head_dim * places_.cache_n_ctx);
        move(Opcode::Load, Region::Cache, places_.k + of_head, places_.cache_n_ctx, plan_.scores.bytes,
             shape_.head_dim, shape_.n_ctx);
        move(Opcode::Load, Region::Cache, places_.v + of_head, shape_.head_dim, plan_.values.bytes,
             shape_.n_ctx, shape_.head_dim);
    }
    /// Moves one head's part of a row tile. The layout is the same in VTCM and DDR, because all rows are
    /// present.
    void move_head(Opcode op, const ActPlace& place, int planes, int64_t item, uint32_t vtcm) {
        const ActLayout layout{shape_.rows, place.channels, planes};
        const int64_t n_tiles = shape_.dim_tiles(), row_tile = item % shape_.row_tiles();
        const int64_t first_tile = place.first_tile + item / shape_.row_tiles() * n_tiles;
        for (int plane = 0; plane < planes; ++plane)
            move(op, Region::Arena,
                 place.at + static_cast<uint64_t>(layout.tile_offset(row_tile, plane, first_tile)),
                 kActTileBytes, vtcm + static_cast<uint32_t>(plane * n_tiles * kActTileBytes), n_tiles,
                 kActTileBytes);
    }
    void store(int64_t item) {
        move_head(Opcode::Store, places_.out, shape_.planes_out, item, plan_.values.out[item % 2]);
    }

    void interleave(int64_t group) {
        interleave(plan_.scores, group, places_.centre_q, places_.scores_factor);
        interleave(plan_.values, group, places_.centre_p, places_.values_factor);
    }
    void interleave(const AttentionProduct& product, int64_t group, int32_t centre, Multiplier factor) {
        const auto n_in = static_cast<uint32_t>(product.k_tiles * kTileChannels);
        const auto n_out = static_cast<uint32_t>(product.n_tiles * kTileChannels);
        Instruction it = instruction_of(Opcode::Interleave);
        it.frees_operands = true;
        it.interleave = {.bytes = product.bytes,
                         .weights = product.weights[group % plan_.kv_buffers],
                         .records = product.records[group % plan_.kv_buffers],
                         .stride = n_out,
                         .n_k = n_in,
                         .n_n = n_out,
                         .k_first = 0,
                         .n_tiles = static_cast<uint32_t>(product.n_tiles),
                         .k_tiles = static_cast<uint32_t>(product.k_tiles),
                         .centre = centre,
                         .factor = factor,
                         .first = true,
                         .hmx = places_.mode == OutputMode::Hmx};
        builder_.add(it);
    }

    /// Loads the item's queries and computes its scores.
    void begin(int64_t item) {
        move_head(Opcode::Load, places_.q, shape_.planes_q, item, plan_.scores.act[item % 2]);
        multiply(plan_.scores, item, places_.zero_scores);
    }
    void weigh(int64_t item) { multiply(plan_.values, item, places_.zero_out); }

    void multiply(const AttentionProduct& product, int64_t item, int32_t zero_out) {
        const int64_t weights = group_of(item) % plan_.kv_buffers;
        Instruction it = instruction_of(Opcode::Multiply);
        // The last item of a group is the last reader of the group's weights.
        it.frees_operands = (item + 1) % items_of_group() == 0;
        it.frees_activations = true;
        it.multiply = {.act = product.act[item % 2],
                       .weights = product.weights[weights],
                       .records = product.records[weights],
                       .out = product.out[item % 2],
                       .sums = 0,
                       .rows = static_cast<uint32_t>(kTileRows),
                       .n_tiles = static_cast<uint32_t>(product.n_tiles),
                       .k_tiles = static_cast<uint32_t>(product.k_tiles),
                       .packet_k_tiles = static_cast<uint32_t>(product.packet_k_tiles),
                       .zero_out = zero_out,
                       .planes_in = static_cast<uint8_t>(product.planes_in),
                       .planes_out = static_cast<uint8_t>(product.planes_out),
                       .first = true,
                       .last = true,
                       .hmx = places_.mode == OutputMode::Hmx};
        builder_.add(it);
    }

    void softmax(int64_t item) {
        Instruction it = instruction_of(Opcode::Softmax);
        it.softmax = {.x = plan_.scores.out[item % 2],
                      .y = plan_.values.act[item % 2],
                      .tables = plan_.tables,
                      .rows = static_cast<uint32_t>(kTileRows),
                      .dim = static_cast<uint32_t>(shape_.n_ctx),
                      .first_row = static_cast<uint32_t>(item % shape_.row_tiles() * kTileRows),
                      .planes_x = static_cast<uint32_t>(shape_.planes_scores),
                      .window = static_cast<uint32_t>(places_.window)};
        builder_.add(it);
    }

    const AttentionShape& shape_;
    const AttentionPlan& plan_;
    const AttentionPlaces& places_;
    StreamBuilder builder_;
};

}  // namespace

int64_t AttentionShape::row_tiles() const { return tiles(rows, kTileRows); }
int64_t AttentionShape::dim_tiles() const { return tiles(head_dim, kTileChannels); }
int64_t AttentionShape::ctx_tiles() const { return tiles(n_ctx, kTileChannels); }

std::optional<AttentionPlan> plan_attention(const AttentionShape& shape, const HtpDevice& device) {
    if (shape.rows % kTileRows != 0 || shape.head_dim % kTileChannels != 0 ||
        shape.n_ctx % kTileChannels != 0)
        return std::nullopt;
    for (const int kv_buffers : {2, 1})
        if (auto plan = place_buffers(shape, device, kv_buffers)) return *plan;
    return std::nullopt;
}

Stream attention_stream(const AttentionShape& shape, const AttentionPlan& plan,
                        const AttentionPlaces& places) {
    return AttentionWriter(shape, plan, places).write();
}

}  // namespace tessera::npu
