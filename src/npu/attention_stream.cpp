// Attention without a way through DDR for scores. An item is one head's row tile; the order of instructions
// is that in which each unit takes its own (StreamBuilder adds the waits): the matrix unit alternates between
// the scores of the next item and the values of this one, which wait for the vector unit.
#include "src/npu/attention_stream.h"

#include "src/npu/attention.h"
#include "src/npu/layout.h"
#include "src/npu/stream.h"
#include "src/npu/vtcm.h"

namespace tessera::npu {

namespace {

Result<AttentionPlan> place_buffers(const AttentionShape& shape, const HtpDevice& device, int kv_buffers) {
    AttentionPlan plan{};
    plan.kv_buffers = kv_buffers;
    const int64_t dim = shape.dim_tiles(), ctx = shape.ctx_tiles();
    plan.k_packet_tiles = packet_tiles(dim, dim, device);
    plan.v_packet_tiles = packet_tiles(ctx, ctx, device);
    const bool has_span = device.vtcm_span_bytes > 0;
    const auto unit = [&](int64_t packet, int64_t tile, int64_t least) {
        return has_span ? packet * tile : least;
    };
    VtcmAllocator vtcm(device.vtcm_bytes);
    TSR_TRY(plan.tables, vtcm.take("tables", static_cast<int64_t>(sizeof(ExpTables)), 128));
    const int64_t head_bytes = dim * ctx * kWeightTileBytes;
    TSR_TRY(plan.k_bytes, vtcm.take("keys", head_bytes, 128));
    TSR_TRY(plan.v_bytes, vtcm.take("values", head_bytes, 128));
    for (size_t i = 0; i < 2; ++i) {
        const auto act = [&](int planes, int64_t tiles) { return planes * tiles * kActTileBytes; };
        TSR_TRY(plan.q[i], vtcm.take("queries", act(shape.planes_q, dim),
                                     unit(plan.k_packet_tiles, kActTileBytes, kActTileBytes)));
        TSR_TRY(plan.scores[i], vtcm.take("scores", act(shape.planes_scores, ctx), kActTileBytes));
        TSR_TRY(plan.p[i], vtcm.take("probabilities", act(2, ctx),
                                     unit(plan.v_packet_tiles, kActTileBytes, kActTileBytes)));
        TSR_TRY(plan.out[i], vtcm.take("weighted values", act(shape.planes_out, dim), kActTileBytes));
        if (static_cast<int>(i) == kv_buffers) {
            plan.k[i] = plan.k[0];
            plan.v[i] = plan.v[0];
            plan.k_records[i] = plan.k_records[0];
            plan.v_records[i] = plan.v_records[0];
            continue;
        }
        TSR_TRY(plan.k[i],
                vtcm.take("weights of keys", head_bytes, unit(plan.k_packet_tiles, kWeightTileBytes, 128)));
        TSR_TRY(plan.v[i],
                vtcm.take("weights of values", head_bytes, unit(plan.v_packet_tiles, kWeightTileBytes, 128)));
        TSR_TRY(plan.k_records[i], vtcm.take("factors of scores", ctx * kRecordTileBytes, 128));
        TSR_TRY(plan.v_records[i], vtcm.take("factors of values", dim * kRecordTileBytes, 128));
    }
    plan.vtcm_bytes = vtcm.peak();
    return plan;
}

class Writer {
  public:
    Writer(const AttentionShape& shape, const AttentionPlan& plan, const AttentionPlaces& places)
        : shape_(shape), plan_(plan), places_(places) {}

    Stream write() {
        load_tables();
        load_cached(0);
        interleave(0);
        begin(0);
        const int64_t n = shape_.n_head * shape_.row_tiles();
        for (int64_t i = 0; i < n; ++i) {
            const bool more_groups = group_of(i) + 1 < shape_.n_head_kv;
            const bool is_group_next = i + 1 < n && group_of(i + 1) != group_of(i);
            // With one buffer the weights of this group are needed until its last values are multiplied.
            const bool comes_early = i + 1 < n && (!is_group_next || plan_.kv_buffers == 2);
            const bool prepares = i % items_of_group() == 0 && more_groups && plan_.kv_buffers == 2;
            if (prepares) load_cached(group_of(i) + 1);
            // A group of one item has no later moment for it.
            if (prepares && items_of_group() == 1) interleave(group_of(i) + 1);
            if (comes_early) begin(i + 1);
            softmax(i);
            if (prepares && items_of_group() > 1) interleave(group_of(i) + 1);
            weigh(i);
            // An item later, so that the queries of the next need not wait behind it.
            if (i > 0) store(i - 1);
            if (i + 1 < n && !comes_early) {
                load_cached(group_of(i + 1));
                interleave(group_of(i + 1));
                begin(i + 1);
            }
        }
        store(n - 1);
        return builder_.take();
    }

  private:
    int64_t items_of_group() const { return shape_.n_head / shape_.n_head_kv * shape_.row_tiles(); }
    int64_t group_of(int64_t item) const { return item / items_of_group(); }
    int64_t head_of(int64_t item) const { return item / shape_.row_tiles(); }
    int64_t row_tile_of(int64_t item) const { return item % shape_.row_tiles(); }
    bool ends_group(int64_t item) const { return (item + 1) % items_of_group() == 0; }
    size_t kv_buffer(int64_t group) const { return static_cast<size_t>(group % plan_.kv_buffers); }

    Instruction instruction_of(Opcode op) const {
        Instruction it;
        it.op = op;
        return it;
    }
    void move(Opcode op, const Transfer& transfer) {
        Instruction it = instruction_of(op);
        it.transfer = transfer;
        it.frees_operands = op == Opcode::Store;
        builder_.add(it);
    }

    void load_tables() {
        move(Opcode::Load, {.ddr = places_.tables,
                            .ddr_stride = 0,
                            .vtcm = plan_.tables,
                            .vtcm_stride = 0,
                            .rows = 1,
                            .row_bytes = static_cast<uint32_t>(sizeof(ExpTables)),
                            .region = Region::Constants,
                            .limit = {},
                            .past_stride = 0,
                            .first_row = 0});
    }
    /// Rows that are `stride` apart in the cache, side by side in VTCM.
    void load_rows(uint64_t ddr, int64_t stride, uint32_t vtcm, int64_t rows, int64_t row_bytes) {
        move(Opcode::Load, {.ddr = ddr,
                            .ddr_stride = static_cast<uint64_t>(stride),
                            .vtcm = vtcm,
                            .vtcm_stride = static_cast<uint32_t>(row_bytes),
                            .rows = static_cast<uint32_t>(rows),
                            .row_bytes = static_cast<uint32_t>(row_bytes),
                            .region = Region::Cache,
                            .limit = {},
                            .past_stride = 0,
                            .first_row = 0});
    }
    /// Keys lie by channel, values by position.
    void load_cached(int64_t group) {
        const auto of_head = static_cast<uint64_t>(group * shape_.head_dim * places_.cache_n_ctx);
        load_rows(places_.k + of_head, places_.cache_n_ctx, plan_.k_bytes, shape_.head_dim, shape_.n_ctx);
        load_rows(places_.v + of_head, shape_.head_dim, plan_.v_bytes, shape_.n_ctx, shape_.head_dim);
    }

    void interleave(int64_t group) {
        const size_t at = kv_buffer(group);
        interleave_one(plan_.k_bytes, plan_.k[at], plan_.k_records[at], shape_.head_dim, shape_.n_ctx,
                       places_.centre_q, places_.scores_factor);
        interleave_one(plan_.v_bytes, plan_.v[at], plan_.v_records[at], shape_.n_ctx, shape_.head_dim,
                       places_.centre_p, places_.values_factor);
    }
    void interleave_one(uint32_t bytes, uint32_t weights, uint32_t records, int64_t n_in, int64_t n_out,
                        int32_t centre, Multiplier factor) {
        Instruction it = instruction_of(Opcode::Interleave);
        it.frees_operands = true;
        it.interleave = {.bytes = bytes,
                         .weights = weights,
                         .records = records,
                         .stride = static_cast<uint32_t>(n_out),
                         .n_k = static_cast<uint32_t>(n_in),
                         .n_n = static_cast<uint32_t>(n_out),
                         .k_first = 0,
                         .n_tiles = static_cast<uint32_t>(n_out / kTileChannels),
                         .k_tiles = static_cast<uint32_t>(n_in / kTileChannels),
                         .centre = centre,
                         .factor = factor,
                         .first = true,
                         .hmx = places_.mode == OutputMode::Hmx};
        builder_.add(it);
    }

    /// A head's part of a row tile, in VTCM as in DDR since all rows are there.
    void move_head(Opcode op, const ActPlace& place, int planes, int64_t item, uint32_t vtcm) {
        const ActLayout layout{shape_.rows, place.channels, planes};
        const int64_t first_tile = place.first_tile + head_of(item) * shape_.dim_tiles();
        for (int plane = 0; plane < planes; ++plane) {
            const int64_t offset = layout.tile_offset(row_tile_of(item), plane, first_tile);
            move(op, {.ddr = place.at + static_cast<uint64_t>(offset),
                      .ddr_stride = static_cast<uint64_t>(kActTileBytes),
                      .vtcm = vtcm + static_cast<uint32_t>(plane * shape_.dim_tiles() * kActTileBytes),
                      .vtcm_stride = static_cast<uint32_t>(kActTileBytes),
                      .rows = static_cast<uint32_t>(shape_.dim_tiles()),
                      .row_bytes = static_cast<uint32_t>(kActTileBytes),
                      .region = Region::Arena,
                      .limit = {},
                      .past_stride = 0,
                      .first_row = 0});
        }
    }
    void store(int64_t item) {
        move_head(Opcode::Store, places_.out, shape_.planes_out, item, plan_.out[item % 2]);
    }

    /// The item's queries, and their scores.
    void begin(int64_t item) {
        move_head(Opcode::Load, places_.q, shape_.planes_q, item, plan_.q[item % 2]);
        const size_t at = kv_buffer(group_of(item));
        multiply(item, {.act = plan_.q[item % 2],
                        .weights = plan_.k[at],
                        .records = plan_.k_records[at],
                        .out = plan_.scores[item % 2],
                        .sums = 0,
                        .rows = static_cast<uint32_t>(kTileRows),
                        .n_tiles = static_cast<uint32_t>(shape_.ctx_tiles()),
                        .k_tiles = static_cast<uint32_t>(shape_.dim_tiles()),
                        .packet_k_tiles = static_cast<uint32_t>(plan_.k_packet_tiles),
                        .zero_out = places_.zero_scores,
                        .planes_in = static_cast<uint8_t>(shape_.planes_q),
                        .planes_out = static_cast<uint8_t>(shape_.planes_scores),
                        .first = true,
                        .last = true,
                        .hmx = places_.mode == OutputMode::Hmx});
    }
    void weigh(int64_t item) {
        const size_t at = kv_buffer(group_of(item));
        multiply(item, {.act = plan_.p[item % 2],
                        .weights = plan_.v[at],
                        .records = plan_.v_records[at],
                        .out = plan_.out[item % 2],
                        .sums = 0,
                        .rows = static_cast<uint32_t>(kTileRows),
                        .n_tiles = static_cast<uint32_t>(shape_.dim_tiles()),
                        .k_tiles = static_cast<uint32_t>(shape_.ctx_tiles()),
                        .packet_k_tiles = static_cast<uint32_t>(plan_.v_packet_tiles),
                        .zero_out = places_.zero_out,
                        .planes_in = 2,
                        .planes_out = static_cast<uint8_t>(shape_.planes_out),
                        .first = true,
                        .last = true,
                        .hmx = places_.mode == OutputMode::Hmx});
    }
    /// The last item of a group is the last to read the group's weights.
    void multiply(int64_t item, const Multiply& operands) {
        Instruction it = instruction_of(Opcode::Multiply);
        it.frees_operands = ends_group(item);
        it.frees_activations = true;
        it.multiply = operands;
        builder_.add(it);
    }

    void softmax(int64_t item) {
        Instruction it = instruction_of(Opcode::Softmax);
        it.softmax = {.x = plan_.scores[item % 2],
                      .y = plan_.p[item % 2],
                      .tables = plan_.tables,
                      .rows = static_cast<uint32_t>(kTileRows),
                      .dim = static_cast<uint32_t>(shape_.n_ctx),
                      .first_row = static_cast<uint32_t>(row_tile_of(item) * kTileRows),
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
    return Writer(shape, plan, places).write();
}

}  // namespace tessera::npu
