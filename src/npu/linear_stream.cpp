// Generates a Linear's stream. Loop order: rows (outermost, because sums and activations belong to them),
// outputs, inputs. With double buffering, the transfer into a buffer waits for the last reader of its
// previous content.
#include "src/npu/linear_stream.h"

#include <algorithm>

#include "src/npu/layout.h"
#include "src/npu/stream.h"

namespace tessera::npu {

namespace {

/// One piece of the weights: tile ranges, and the number of pieces of each kind before it.
struct Stage {
    int64_t row, n_rows, n, n_n, k, n_k;  // first tile and number of tiles of each dimension
    int64_t act, chunk;                   // index of the activation piece, index of the (rows, outputs) pair
    bool first, last;                     // first or last piece along the inputs
};

class LinearWriter {
  public:
    LinearWriter(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places)
        : shape_(shape), plan_(plan), places_(places) {}

    Stream write() {
        list_stages();
        load(0);
        for (size_t s = 0; s < stages_.size(); ++s) {
            if (s + 1 < stages_.size()) load(s + 1);
            if (shape_.is_cached) {
                interleave(s);
            } else if (has_blocks()) {
                expand(s);
            }
            multiply(s);
            // Stored one stage late, so that the next load does not queue behind it.
            if (s > 0 && stages_[s - 1].last) store(stages_[s - 1]);
        }
        store(stages_.back());
        return builder_.take();
    }

  private:
    bool has_blocks() const { return shape_.block > 0; }
    int64_t tile_bytes() const { return has_blocks() ? kNibbleTileBytes : kWeightTileBytes; }

    void list_stages() {
        const TileSizes& size = plan_.size;
        int64_t act = -1, chunk = -1;
        for (int64_t row = 0; row < shape_.row_tiles(); row += size.row_tiles)
            for (int64_t n = 0; n < shape_.n_tiles(); n += size.n_tiles, ++chunk)
                for (int64_t k = 0; k < shape_.k_tiles(); k += size.k_tiles) {
                    const int64_t n_k = std::min(size.k_tiles, shape_.k_tiles() - k);
                    // Activations change with the rows and, if inputs are split, with each piece.
                    act += k > 0 || n_k < shape_.k_tiles() || n == 0;
                    stages_.push_back({row, std::min(size.row_tiles, shape_.row_tiles() - row), n,
                                       std::min(size.n_tiles, shape_.n_tiles() - n), k, n_k, act, chunk + 1,
                                       k == 0, k + n_k == shape_.k_tiles()});
                }
    }

    void move(Opcode op, const Transfer& transfer) {
        Instruction instruction;
        instruction.op = op;
        instruction.transfer = transfer;
        // Stored results are no longer needed in VTCM.
        instruction.frees_operands = op == Opcode::Store;
        builder_.add(instruction);
    }

    void load_weights(uint64_t ddr, int64_t ddr_stride, uint32_t vtcm, int64_t rows, int64_t row_bytes) {
        move(Opcode::Load, {.ddr = places_.weights + ddr,
                            .ddr_stride = static_cast<uint64_t>(ddr_stride),
                            .vtcm = vtcm,
                            .vtcm_stride = static_cast<uint32_t>(row_bytes),
                            .rows = static_cast<uint32_t>(rows),
                            .row_bytes = static_cast<uint32_t>(row_bytes),
                            .region = Region::Constants,
                            .limit = {},
                            .past_stride = 0,
                            .first_row = 0});
    }

    void load(size_t s) {
        const Stage& stage = stages_[s];
        if (s == 0 || stages_[s - 1].act != stage.act) load_activations(stage);
        if (shape_.is_cached) return load_cached(s);
        if (stage.first)
            load_weights(static_cast<uint64_t>(places_.record_offset + stage.n * kRecordTileBytes),
                         kRecordTileBytes, plan_.records[stage.chunk % 2], stage.n_n, kRecordTileBytes);
        const int64_t row_bytes = shape_.k_tiles() * tile_bytes();
        load_weights(static_cast<uint64_t>(stage.n * row_bytes + stage.k * tile_bytes()), row_bytes,
                     has_blocks() ? plan_.packed[s % 2] : plan_.weights[s % 2], stage.n_n,
                     stage.n_k * tile_bytes());
        if (!has_blocks()) return;
        const int64_t mult_row = n_mult_bytes(shape_.k_tiles(), shape_.block);
        const int64_t before = n_mult_bytes(stage.k, shape_.block);
        load_weights(static_cast<uint64_t>(places_.mult_offset + stage.n * mult_row + before), mult_row,
                     plan_.mult[s % 2], stage.n_n, n_mult_bytes(stage.n_k, shape_.block));
    }

    /// The cached inputs of a stage: they may start inside the first tile and end inside the last one.
    int64_t first_input(const Stage& stage) const {
        return std::max(stage.k * kTileChannels, shape_.k_first);
    }
    int64_t n_inputs(const Stage& stage) const {
        const int64_t end = std::min((stage.k + stage.n_k) * kTileChannels, shape_.k_first + shape_.n_in);
        return end - first_input(stage);
    }
    int64_t n_outputs(const Stage& stage) const {
        return std::min(stage.n_n * kTileChannels, shape_.n_out - stage.n * kTileChannels);
    }

    void load_cached(size_t s) {
        const Stage& stage = stages_[s];
        move(Opcode::Load,
             {.ddr = places_.weights +
                     static_cast<uint64_t>(first_input(stage) - shape_.k_first) * places_.input_stride +
                     static_cast<uint64_t>(stage.n * kTileChannels),
              .ddr_stride = places_.input_stride,
              .vtcm = plan_.packed[s % 2],
              .vtcm_stride = static_cast<uint32_t>(n_outputs(stage)),
              .rows = static_cast<uint32_t>(n_inputs(stage)),
              .row_bytes = static_cast<uint32_t>(n_outputs(stage)),
              .region = Region::Cache,
              .limit = {},
              .past_stride = 0,
              .first_row = 0});
    }

    /// A row tile has only its valid rows in DDR, but always 64 in VTCM.
    Transfer act_transfer(const ActPlace& place, int64_t own_channels, int planes, int64_t row, int plane,
                          int64_t first_tile, int64_t n_tiles) const {
        const ActLayout layout{shape_.rows, place.channels > 0 ? place.channels : own_channels, planes};
        const int64_t row_bytes = layout.rows_of(row) * kTileChannels;
        const int64_t offset = layout.tile_offset(row, plane, place.first_tile + first_tile);
        return {.ddr = place.at + static_cast<uint64_t>(offset),
                .ddr_stride = static_cast<uint64_t>(row_bytes),
                .vtcm = 0,
                .vtcm_stride = static_cast<uint32_t>(kActTileBytes),
                .rows = static_cast<uint32_t>(n_tiles),
                .row_bytes = static_cast<uint32_t>(row_bytes),
                .region = Region::Arena,
                .limit = {},
                .past_stride = 0,
                .first_row = 0};
    }

    void load_activations(const Stage& stage) {
        const uint32_t buffer = plan_.act[stage.act % plan_.act_buffers];
        for (int64_t row = 0; row < stage.n_rows; ++row)
            for (int plane = 0; plane < shape_.planes_in; ++plane) {
                Transfer t = act_transfer(places_.input, shape_.k_first + shape_.n_in, shape_.planes_in,
                                          stage.row + row, plane, stage.k, stage.n_k);
                const int64_t vtcm = (row * shape_.planes_in + plane) * stage.n_k * kActTileBytes;
                t.vtcm = buffer + static_cast<uint32_t>(vtcm);
                move(Opcode::Load, t);
            }
    }

    void expand(size_t s) {
        const Stage& stage = stages_[s];
        Instruction instruction;
        instruction.op = Opcode::Expand;
        instruction.frees_operands = true;
        instruction.expand = {.packed = plan_.packed[s % 2],
                              .mult = plan_.mult[s % 2],
                              .weights = plan_.weights[s % 2],
                              .n_tiles = static_cast<uint32_t>(stage.n_n),
                              .k_tiles = static_cast<uint32_t>(stage.n_k),
                              .block = static_cast<uint32_t>(shape_.block)};
        builder_.add(instruction);
    }

    void interleave(size_t s) {
        const Stage& stage = stages_[s];
        Instruction instruction;
        instruction.op = Opcode::Interleave;
        instruction.frees_operands = true;
        instruction.interleave = {
            .bytes = plan_.packed[s % 2],
            .weights = plan_.weights[s % 2],
            .records = plan_.records[stage.chunk % 2],
            .stride = static_cast<uint32_t>(n_outputs(stage)),
            .n_k = static_cast<uint32_t>(n_inputs(stage)),
            .n_n = static_cast<uint32_t>(n_outputs(stage)),
            .k_first = static_cast<uint32_t>(first_input(stage) - stage.k * kTileChannels),
            .n_tiles = static_cast<uint32_t>(stage.n_n),
            .k_tiles = static_cast<uint32_t>(stage.n_k),
            .centre = places_.centre,
            .factor = places_.factor,
            .first = stage.first,
            .hmx = places_.mode == OutputMode::Hmx};
        builder_.add(instruction);
    }

    void multiply(size_t s) {
        const Stage& stage = stages_[s];
        const size_t pair = static_cast<size_t>(stage.chunk % 2);
        const int64_t rows = std::min(shape_.rows - stage.row * kTileRows, stage.n_rows * kTileRows);
        Instruction instruction;
        instruction.op = Opcode::Multiply;
        instruction.frees_operands = true;
        instruction.frees_activations = s + 1 == stages_.size() || stages_[s + 1].act != stage.act;
        instruction.multiply = {.act = plan_.act[stage.act % plan_.act_buffers],
                                .weights = plan_.weights[s % 2],
                                .records = plan_.records[pair],
                                .out = plan_.out[pair],
                                .sums = plan_.sums,
                                .rows = static_cast<uint32_t>(rows),
                                .n_tiles = static_cast<uint32_t>(stage.n_n),
                                .k_tiles = static_cast<uint32_t>(stage.n_k),
                                .packet_k_tiles = static_cast<uint32_t>(plan_.packet_k_tiles),
                                .zero_out = places_.zero_out,
                                .planes_in = static_cast<uint8_t>(shape_.planes_in),
                                .planes_out = static_cast<uint8_t>(shape_.planes_out),
                                .first = stage.first,
                                .last = stage.last,
                                .hmx = places_.mode == OutputMode::Hmx};
        builder_.add(instruction);
    }

    void store(const Stage& stage) {
        for (int64_t row = 0; row < stage.n_rows; ++row)
            for (int plane = 0; plane < shape_.planes_out; ++plane) {
                Transfer t = act_transfer(places_.output, shape_.n_out, shape_.planes_out, stage.row + row,
                                          plane, stage.n, stage.n_n);
                const int64_t vtcm = (row * shape_.planes_out + plane) * stage.n_n * kActTileBytes;
                t.vtcm = plan_.out[stage.chunk % 2] + static_cast<uint32_t>(vtcm);
                move(Opcode::Store, t);
            }
    }

    const LinearShape& shape_;
    const TilePlan& plan_;
    const LinearPlaces& places_;
    StreamBuilder builder_;
    std::vector<Stage> stages_;
};

}  // namespace

Stream linear_stream(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places) {
    return LinearWriter(shape, plan, places).write();
}

}  // namespace tessera::npu
