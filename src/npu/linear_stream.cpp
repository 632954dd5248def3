// A Linear as a stream. Rows outermost, since sums and activations are theirs, then outputs, then inputs.
// Buffers come in pairs: the transfer into one waits for whoever read its content before the last.
#include "src/npu/linear_stream.h"

#include <algorithm>

#include "src/npu/layout.h"
#include "src/npu/stream.h"

namespace tessera::npu {

namespace {

using Ticket = StreamBuilder::Ticket;

/// One piece of the weights: ranges of tiles, and how many pieces of each kind came before it.
struct Stage {
    int64_t row, n_rows, n, n_n, k, n_k;  // first tile and number of tiles
    int64_t act, chunk;                   // which piece of activations, which pair of rows and outputs
    bool first, last;                     // along the inputs
};

class Writer {
  public:
    Writer(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places)
        : shape_(shape), plan_(plan), places_(places) {}

    Stream write() {
        list_stages();
        load(0);
        for (size_t s = 0; s < stages_.size(); ++s) {
            if (s + 1 < stages_.size()) load(s + 1);
            if (has_blocks()) expand(s);
            multiply(s);
            // A stage later, so that the load of the next one need not wait behind it.
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
                    // Activations change with the rows and, where inputs are cut, with each piece.
                    act += k > 0 || n_k < shape_.k_tiles() || n == 0;
                    stages_.push_back({row, std::min(size.row_tiles, shape_.row_tiles() - row), n,
                                       std::min(size.n_tiles, shape_.n_tiles() - n), k, n_k, act, chunk + 1,
                                       k == 0, k + n_k == shape_.k_tiles()});
                }
        act_users_.resize(static_cast<size_t>(act) + 1);
        chunk_users_.resize(static_cast<size_t>(chunk) + 1);
        act_loads_.resize(act_users_.size());
        record_loads_.resize(chunk_users_.size());
        stores_.resize(chunk_users_.size());
        expands_.resize(stages_.size());
        users_.resize(stages_.size());
        loads_.resize(stages_.size());
    }

    /// Ticket of the user number i of a list, none before the first.
    static Ticket of(const std::vector<Ticket>& list, int64_t i) {
        return i < 0 ? Ticket{} : list[static_cast<size_t>(i)];
    }

    /// One transfer between DDR and VTCM.
    Ticket move(Opcode op, const Transfer& transfer, std::initializer_list<Ticket> after) {
        Instruction instruction;
        instruction.op = op;
        instruction.transfer = transfer;
        // What was stored is of no use any more.
        instruction.frees_operands = op == Opcode::Store;
        return builder_.add(instruction, after);
    }

    Ticket load_weights(uint64_t ddr, int64_t ddr_stride, uint32_t vtcm, int64_t rows, int64_t row_bytes,
                        Ticket after) {
        return move(Opcode::Load,
                    {.ddr = places_.weights + ddr,
                     .ddr_stride = static_cast<uint64_t>(ddr_stride),
                     .vtcm = vtcm,
                     .vtcm_stride = static_cast<uint32_t>(row_bytes),
                     .rows = static_cast<uint32_t>(rows),
                     .row_bytes = static_cast<uint32_t>(row_bytes),
                     .region = Region::Weights},
                    {after});
    }

    void load(size_t s) {
        const Stage& stage = stages_[s];
        const auto i = static_cast<int64_t>(s);
        if (s == 0 || stages_[s - 1].act != stage.act) load_activations(stage);
        if (stage.first) load_records(stage);
        const int64_t row_bytes = shape_.k_tiles() * tile_bytes();
        const uint64_t ddr = static_cast<uint64_t>(stage.n * row_bytes + stage.k * tile_bytes());
        if (!has_blocks()) {
            loads_[s] = load_weights(ddr, row_bytes, plan_.weights[s % 2], stage.n_n,
                                     stage.n_k * tile_bytes(), of(users_, i - 2));
            return;
        }
        const Ticket reader = of(expands_, i - 2);
        load_weights(ddr, row_bytes, plan_.packed[s % 2], stage.n_n, stage.n_k * tile_bytes(), reader);
        const int64_t mult_row = n_mult_bytes(shape_.k_tiles(), shape_.block);
        const int64_t before = n_mult_bytes(stage.k, shape_.block);
        loads_[s] =
            load_weights(static_cast<uint64_t>(places_.mult_offset + stage.n * mult_row + before), mult_row,
                         plan_.mult[s % 2], stage.n_n, n_mult_bytes(stage.n_k, shape_.block), reader);
    }

    void load_records(const Stage& stage) {
        record_loads_[static_cast<size_t>(stage.chunk)] = load_weights(
            static_cast<uint64_t>(places_.record_offset + stage.n * kRecordTileBytes), kRecordTileBytes,
            plan_.records[stage.chunk % 2], stage.n_n, kRecordTileBytes, of(chunk_users_, stage.chunk - 2));
    }

    /// A row tile's rows in DDR are as many as there are, in VTCM always 64.
    void load_activations(const Stage& stage) {
        const ActLayout layout{shape_.rows, shape_.n_in, shape_.planes_in};
        const uint32_t buffer = plan_.act[stage.act % plan_.act_buffers];
        for (int64_t row = 0; row < stage.n_rows; ++row)
            for (int plane = 0; plane < shape_.planes_in; ++plane) {
                const int64_t row_bytes = layout.rows_of(stage.row + row) * kTileChannels;
                const int64_t vtcm = (row * shape_.planes_in + plane) * stage.n_k * kActTileBytes;
                act_loads_[static_cast<size_t>(stage.act)] =
                    move(Opcode::Load,
                         {.ddr = places_.input +
                                 static_cast<uint64_t>(layout.tile_offset(stage.row + row, plane, stage.k)),
                          .ddr_stride = static_cast<uint64_t>(row_bytes),
                          .vtcm = buffer + static_cast<uint32_t>(vtcm),
                          .vtcm_stride = static_cast<uint32_t>(kActTileBytes),
                          .rows = static_cast<uint32_t>(stage.n_k),
                          .row_bytes = static_cast<uint32_t>(row_bytes),
                          .region = Region::Input},
                         {of(act_users_, stage.act - plan_.act_buffers)});
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
        const Ticket after[] = {loads_[s], of(users_, static_cast<int64_t>(s) - 2)};
        expands_[s] = builder_.add(instruction, after);
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
                                .last = stage.last};
        const Ticket after[] = {has_blocks() ? expands_[s] : loads_[s],
                                act_loads_[static_cast<size_t>(stage.act)],
                                stage.last ? record_loads_[static_cast<size_t>(stage.chunk)] : Ticket{},
                                stage.last ? of(stores_, stage.chunk - 2) : Ticket{}};
        users_[s] = builder_.add(instruction, after);
        act_users_[static_cast<size_t>(stage.act)] = users_[s];
        chunk_users_[static_cast<size_t>(stage.chunk)] = users_[s];
    }

    void store(const Stage& stage) {
        const ActLayout layout{shape_.rows, shape_.n_out, shape_.planes_out};
        const auto chunk = static_cast<size_t>(stage.chunk);
        for (int64_t row = 0; row < stage.n_rows; ++row)
            for (int plane = 0; plane < shape_.planes_out; ++plane) {
                const int64_t row_bytes = layout.rows_of(stage.row + row) * kTileChannels;
                const int64_t vtcm = (row * shape_.planes_out + plane) * stage.n_n * kActTileBytes;
                stores_[chunk] = move(Opcode::Store,
                                      {.ddr = places_.output + static_cast<uint64_t>(layout.tile_offset(
                                                                   stage.row + row, plane, stage.n)),
                                       .ddr_stride = static_cast<uint64_t>(row_bytes),
                                       .vtcm = plan_.out[chunk % 2] + static_cast<uint32_t>(vtcm),
                                       .vtcm_stride = static_cast<uint32_t>(kActTileBytes),
                                       .rows = static_cast<uint32_t>(stage.n_n),
                                       .row_bytes = static_cast<uint32_t>(row_bytes),
                                       .region = Region::Output},
                                      {chunk_users_[chunk]});
            }
    }

    const LinearShape& shape_;
    const TilePlan& plan_;
    const LinearPlaces& places_;
    StreamBuilder builder_;
    std::vector<Stage> stages_;
    // Who touched what last: by stage, by piece of activations, by pair of rows and outputs.
    std::vector<Ticket> loads_, expands_, users_;
    std::vector<Ticket> act_loads_, act_users_;
    std::vector<Ticket> record_loads_, chunk_users_, stores_;
};

}  // namespace

Stream linear_stream(const LinearShape& shape, const TilePlan& plan, const LinearPlaces& places) {
    return Writer(shape, plan, places).write();
}

}  // namespace tessera::npu
