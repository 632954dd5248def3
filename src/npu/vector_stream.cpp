// Rows of a row tile are contiguous in each of its tiles, so a range of rows is one two-dimensional transfer;
// all values of a plane are contiguous.
#include "src/npu/vector_stream.h"

#include <algorithm>
#include <numeric>

#include "src/npu/attention.h"

namespace tessera::npu {

namespace {

constexpr int64_t kVectorAlignment = 128;

int64_t plane_bytes(const ActLayout& layout, int64_t rows) {
    return layout.channel_tiles() * rows * kTileChannels;
}
int64_t row_bytes(const ActLayout& layout) { return layout.planes * plane_bytes(layout, 1); }

Instruction instruction_of(Opcode op) {
    Instruction instruction;
    instruction.op = op;
    return instruction;
}

}  // namespace

void VectorStream::move(Opcode op, const Transfer& transfer) {
    Instruction instruction = instruction_of(op);
    instruction.transfer = transfer;
    builder_.add(instruction);
}

void VectorStream::load_constants(uint64_t at, int64_t n_bytes, uint32_t vtcm) {
    move(Opcode::Load, {.ddr = at,
                        .ddr_stride = 0,
                        .vtcm = vtcm,
                        .vtcm_stride = 0,
                        .rows = 1,
                        .row_bytes = static_cast<uint32_t>(n_bytes),
                        .region = Region::Constants,
                        .limit = {},
                        .past_stride = 0,
                        .first_row = 0});
}

void VectorStream::move_rows(Opcode op, const ActTensor& tensor, const Piece& piece, uint32_t vtcm) {
    const ActLayout& layout = tensor.layout;
    const int64_t offset = layout.tile_offset(piece.row_tile, 0, 0) + piece.first * kTileChannels;
    move(op, {.ddr = tensor.at + static_cast<uint64_t>(offset),
              .ddr_stride = static_cast<uint64_t>(layout.rows_of(piece.row_tile) * kTileChannels),
              .vtcm = vtcm,
              .vtcm_stride = static_cast<uint32_t>(piece.rows * kTileChannels),
              .rows = static_cast<uint32_t>(layout.planes * layout.channel_tiles()),
              .row_bytes = static_cast<uint32_t>(piece.rows * kTileChannels),
              .region = Region::Arena,
              .limit = {},
              .past_stride = 0,
              .first_row = 0});
}

void VectorStream::move_values(Opcode op, const ActTensor& tensor, int64_t row_tile, int64_t first, int64_t n,
                               uint32_t vtcm) {
    const ActLayout& layout = tensor.layout;
    const int64_t offset = layout.tile_offset(row_tile, 0, 0) + first;
    move(op, {.ddr = tensor.at + static_cast<uint64_t>(offset),
              .ddr_stride = static_cast<uint64_t>(plane_bytes(layout, layout.rows_of(row_tile))),
              .vtcm = vtcm,
              .vtcm_stride = static_cast<uint32_t>(n),
              .rows = static_cast<uint32_t>(layout.planes),
              .row_bytes = static_cast<uint32_t>(n),
              .region = Region::Arena,
              .limit = {},
              .past_stride = 0,
              .first_row = 0});
}

/// fn(piece, table in VTCM, table of the piece, x, y) appends the instructions of one piece. table_bytes is
/// shared by all pieces; bytes_of_row counts per row in addition to x and y.
template <class Fn>
Result<int64_t> VectorStream::by_rows(const ActTensor& x, const ActTensor& y, int64_t table_bytes,
                                      int64_t bytes_of_row, const Fn& fn) {
    const int64_t each = row_bytes(x.layout) + row_bytes(y.layout) + bytes_of_row;
    const int64_t left = device_.vtcm_bytes - table_bytes - 8 * kVectorAlignment;
    const int64_t most = std::min({kTileRows, x.layout.rows, left / (2 * each)});
    const int64_t rows = std::max<int64_t>(1, most);
    VtcmAllocator vtcm(device_.vtcm_bytes);
    TSR_TRY(const uint32_t table, vtcm.take("a table", table_bytes, kVectorAlignment));
    uint32_t of_rows[2], of_x[2], of_y[2];
    for (int i = 0; i < 2; ++i) {
        TSR_TRY(of_rows[i], vtcm.take("a table of rows", rows * bytes_of_row, kVectorAlignment));
        TSR_TRY(of_x[i], vtcm.take("a row of values", rows * row_bytes(x.layout), kVectorAlignment));
        TSR_TRY(of_y[i], vtcm.take("a row of results", rows * row_bytes(y.layout), kVectorAlignment));
    }
    int buffer = 0;
    for (int64_t tile = 0; tile < x.layout.row_tiles(); ++tile)
        for (int64_t first = 0; first < x.layout.rows_of(tile); first += rows, buffer ^= 1) {
            const Piece piece{tile, first, std::min(rows, x.layout.rows_of(tile) - first)};
            move_rows(Opcode::Load, x, piece, of_x[buffer]);
            fn(piece, table, of_rows[buffer], of_x[buffer], of_y[buffer]);
            move_rows(Opcode::Store, y, piece, of_y[buffer]);
        }
    return vtcm.peak();
}

Result<int64_t> VectorStream::norm(const ActTensor& x, const ActTensor& y, const NormRows& node,
                                   uint64_t gamma) {
    bool is_loaded = false;
    return by_rows(x, y, int64_t{node.n} * 2, 0,
                   [&](const Piece& piece, uint32_t table, uint32_t, uint32_t in, uint32_t out) {
                       if (!is_loaded) load_constants(gamma, int64_t{node.n} * 2, table);
                       is_loaded = true;
                       Instruction it = instruction_of(Opcode::Norm);
                       it.norm = node;
                       it.norm.x = in;
                       it.norm.y = out;
                       it.norm.gamma = table;
                       it.norm.rows = static_cast<uint32_t>(piece.rows);
                       it.norm.dim = static_cast<uint32_t>(x.layout.channels);
                       builder_.add(it);
                   });
}

Result<int64_t> VectorStream::rotate(const ActTensor& x, const ActTensor& y, const RotateRows& node,
                                     uint64_t table) {
    const int64_t of_row = int64_t{node.factors.n_rot} * 2;
    return by_rows(x, y, 0, of_row,
                   [&](const Piece& piece, uint32_t, uint32_t own, uint32_t in, uint32_t out) {
                       const int64_t row = piece.row_tile * kTileRows + piece.first;
                       move(Opcode::Load, {.ddr = table + static_cast<uint64_t>(row * of_row),
                                           .ddr_stride = static_cast<uint64_t>(of_row),
                                           .vtcm = own,
                                           .vtcm_stride = static_cast<uint32_t>(of_row),
                                           .rows = static_cast<uint32_t>(piece.rows),
                                           .row_bytes = static_cast<uint32_t>(of_row),
                                           .region = Region::Constants,
                                           .limit = Transfer::Limit::Rows,
                                           .past_stride = static_cast<uint32_t>(of_row),
                                           .first_row = static_cast<uint32_t>(row)});
                       Instruction it = instruction_of(Opcode::Rotate);
                       it.rotate = node;
                       it.rotate.x = in;
                       it.rotate.y = out;
                       it.rotate.cos_sin = own;
                       it.rotate.rows = static_cast<uint32_t>(piece.rows);
                       it.rotate.dim = static_cast<uint32_t>(x.layout.channels);
                       builder_.add(it);
                   });
}

Result<int64_t> VectorStream::softmax(const ActTensor& x, const ActTensor& y, const SoftmaxRows& node,
                                      uint64_t tables) {
    bool is_loaded = false;
    const auto n_bytes = static_cast<int64_t>(sizeof(ExpTables));
    return by_rows(x, y, n_bytes, 0,
                   [&](const Piece& piece, uint32_t table, uint32_t, uint32_t in, uint32_t out) {
                       if (!is_loaded) load_constants(tables, n_bytes, table);
                       is_loaded = true;
                       Instruction it = instruction_of(Opcode::Softmax);
                       it.softmax = node;
                       it.softmax.x = in;
                       it.softmax.y = out;
                       it.softmax.tables = table;
                       it.softmax.rows = static_cast<uint32_t>(piece.rows);
                       it.softmax.dim = static_cast<uint32_t>(x.layout.channels);
                       it.softmax.planes_x = static_cast<uint32_t>(x.layout.planes);
                       it.softmax.first_row = static_cast<uint32_t>(piece.row_tile * kTileRows + piece.first);
                       builder_.add(it);
                   });
}

Result<int64_t> VectorStream::lookup(const ActTensor& x, const ActTensor& y, uint64_t table,
                                     int64_t n_entries) {
    // The table takes up to half of VTCM; a larger one is loaded in two parts for every piece of values.
    const bool is_whole = n_entries * 2 <= device_.vtcm_bytes / 2;
    const int64_t n_at_once =
        is_whole ? n_entries : device_.vtcm_bytes / 8 / kVectorAlignment * kVectorAlignment / 2;
    const int64_t table_bytes = n_at_once * 2 * (is_whole ? 1 : 2);
    const int64_t planes = x.layout.planes + y.layout.planes;
    const int64_t left = device_.vtcm_bytes - table_bytes - 8 * kVectorAlignment;
    const int64_t most = left / (2 * planes) / kVectorAlignment * kVectorAlignment;
    const int64_t at_once = std::min(most, plane_bytes(x.layout, std::min(kTileRows, x.layout.rows)));
    if (at_once <= 0 || n_at_once <= 0)
        return fail(ErrorCode::OutOfMemory, "a function: its table and values do not fit into VTCM");
    VtcmAllocator vtcm(device_.vtcm_bytes);
    uint32_t of_table[2], of_x[2], of_y[2];
    for (int i = 0; i < 2; ++i) {
        TSR_TRY(of_table[i], vtcm.take("a table", is_whole && i > 0 ? 0 : n_at_once * 2, kVectorAlignment));
        TSR_TRY(of_x[i], vtcm.take("values", at_once * x.layout.planes, kVectorAlignment));
        TSR_TRY(of_y[i], vtcm.take("results", at_once * y.layout.planes, kVectorAlignment));
    }
    int buffer = 0, half = 0;
    if (is_whole) load_constants(table, n_entries * 2, of_table[0]);
    for (int64_t tile = 0; tile < x.layout.row_tiles(); ++tile) {
        const int64_t n_values = plane_bytes(x.layout, x.layout.rows_of(tile));
        for (int64_t first = 0; first < n_values; first += at_once, buffer ^= 1) {
            const int64_t n = std::min(at_once, n_values - first);
            move_values(Opcode::Load, x, tile, first, n, of_x[buffer]);
            for (int64_t begin = 0; begin < n_entries; begin += n_at_once, half ^= !is_whole) {
                const int64_t end = std::min(n_entries, begin + n_at_once);
                if (!is_whole)
                    load_constants(table + static_cast<uint64_t>(begin * 2), (end - begin) * 2,
                                   of_table[half]);
                Instruction it = instruction_of(Opcode::Lookup);
                it.lookup = {.x = of_x[buffer],
                             .y = of_y[buffer],
                             .table = of_table[half],
                             .n = static_cast<uint32_t>(n),
                             .begin = static_cast<uint32_t>(begin),
                             .end = static_cast<uint32_t>(end),
                             .planes_x = static_cast<uint32_t>(x.layout.planes),
                             .planes_y = static_cast<uint32_t>(y.layout.planes)};
                builder_.add(it);
            }
            move_values(Opcode::Store, y, tile, first, n, of_y[buffer]);
        }
    }
    return vtcm.peak();
}

template <class Pair>
Result<int64_t> VectorStream::by_values(Opcode op, const ActTensor& a, const ActTensor& b, const ActTensor& y,
                                        const Pair& node, Pair Instruction::*member) {
    const int64_t planes = a.layout.planes + b.layout.planes + y.layout.planes;
    const int64_t most =
        (device_.vtcm_bytes - 8 * kVectorAlignment) / (2 * planes) / kVectorAlignment * kVectorAlignment;
    const int64_t at_once =
        std::min(std::max(most, kVectorAlignment), plane_bytes(y.layout, std::min(kTileRows, y.layout.rows)));
    VtcmAllocator vtcm(device_.vtcm_bytes);
    uint32_t of_a[2], of_b[2], of_y[2];
    for (int i = 0; i < 2; ++i) {
        TSR_TRY(of_a[i], vtcm.take("values", at_once * a.layout.planes, kVectorAlignment));
        TSR_TRY(of_b[i], vtcm.take("values", at_once * b.layout.planes, kVectorAlignment));
        TSR_TRY(of_y[i], vtcm.take("results", at_once * y.layout.planes, kVectorAlignment));
    }
    int buffer = 0;
    for (int64_t tile = 0; tile < y.layout.row_tiles(); ++tile) {
        const int64_t n_values = plane_bytes(y.layout, y.layout.rows_of(tile));
        for (int64_t first = 0; first < n_values; first += at_once, buffer ^= 1) {
            const int64_t n = std::min(at_once, n_values - first);
            move_values(Opcode::Load, a, tile, first, n, of_a[buffer]);
            move_values(Opcode::Load, b, tile, first, n, of_b[buffer]);
            Instruction it = instruction_of(op);
            it.frees_operands = true;
            it.*member = node;
            (it.*member).a = of_a[buffer];
            (it.*member).b = of_b[buffer];
            (it.*member).y = of_y[buffer];
            (it.*member).n = static_cast<uint32_t>(n);
            builder_.add(it);
            move_values(Opcode::Store, y, tile, first, n, of_y[buffer]);
        }
    }
    return vtcm.peak();
}

Result<int64_t> VectorStream::add(const ActTensor& a, const ActTensor& b, const ActTensor& y,
                                  const AddValues& node) {
    return by_values(Opcode::Add, a, b, y, node, &Instruction::add);
}

Result<int64_t> VectorStream::mul(const ActTensor& a, const ActTensor& b, const ActTensor& y,
                                  const MulValues& node) {
    return by_values(Opcode::Mul, a, b, y, node, &Instruction::mul);
}

/// Calls fn(x in VTCM, scratch in VTCM, first head, number of heads, row tile, rows) for groups of heads that
/// form whole tiles. bytes_per_value: scratch bytes per channel and row of 64-row tiles.
template <class Fn>
Result<int64_t> VectorStream::append_part(const ActTensor& x, const CachePlace& cache,
                                          int64_t bytes_per_value, const Fn& fn) {
    const int64_t unit = kTileChannels / std::gcd(cache.head_dim, kTileChannels);  // heads
    const int64_t unit_bytes = unit * cache.head_dim * kTileRows * (1 + bytes_per_value);
    const int64_t most = (device_.vtcm_bytes - 4 * kVectorAlignment) / (2 * unit_bytes);
    const int64_t heads = std::min(std::max<int64_t>(most, 1) * unit, cache.n_head);
    const int64_t n_bytes = tiles(heads * cache.head_dim, kTileChannels) * kActTileBytes;
    VtcmAllocator vtcm(device_.vtcm_bytes);
    uint32_t of_x[2], more[2];
    for (int i = 0; i < 2; ++i) {
        TSR_TRY(of_x[i], vtcm.take("keys or values", n_bytes, kVectorAlignment));
        TSR_TRY(more[i], vtcm.take("keys by position", n_bytes * bytes_per_value, kVectorAlignment));
    }
    int buffer = 0;
    for (int64_t tile = 0; tile < x.layout.row_tiles(); ++tile)
        for (int64_t head = 0; head < cache.n_head; head += heads, buffer ^= 1) {
            const int64_t rows = x.layout.rows_of(tile), n = std::min(heads, cache.n_head - head);
            const int64_t first_tile = head * cache.head_dim / kTileChannels;
            move_values(Opcode::Load, x, tile, first_tile * rows * kTileChannels,
                        tiles(n * cache.head_dim, kTileChannels) * rows * kTileChannels, of_x[buffer]);
            fn(of_x[buffer], more[buffer], head, n, tile, rows);
        }
    return vtcm.peak();
}

Result<int64_t> VectorStream::append(const ActTensor& k, const ActTensor& v, const CachePlace& cache) {
    const int64_t dim = cache.head_dim;
    const auto store = [&](uint64_t ddr, int64_t ddr_stride, int64_t vtcm, int64_t vtcm_stride, int64_t rows,
                           int64_t bytes, Transfer::Limit limit, int64_t past_stride, int64_t row_tile) {
        move(Opcode::Store, {.ddr = ddr,
                             .ddr_stride = static_cast<uint64_t>(ddr_stride),
                             .vtcm = static_cast<uint32_t>(vtcm),
                             .vtcm_stride = static_cast<uint32_t>(vtcm_stride),
                             .rows = static_cast<uint32_t>(rows),
                             .row_bytes = static_cast<uint32_t>(bytes),
                             .region = Region::Cache,
                             .limit = limit,
                             .past_stride = static_cast<uint32_t>(past_stride),
                             .first_row = static_cast<uint32_t>(row_tile * kTileRows)});
    };
    TSR_TRY(
        const int64_t k_bytes,
        append_part(
            k, cache, 1, [&](uint32_t x, uint32_t y, int64_t head, int64_t n, int64_t tile, int64_t rows) {
                Instruction it = instruction_of(Opcode::Transpose);
                it.frees_operands = true;
                it.transpose = {.x = x,
                                .y = y,
                                .rows = static_cast<uint32_t>(rows),
                                .channel_tiles = static_cast<uint32_t>(tiles(n * dim, kTileChannels))};
                builder_.add(it);
                for (int64_t h = 0; h < n; ++h)
                    store(cache.k + static_cast<uint64_t>((head + h) * dim * cache.n_ctx + tile * kTileRows),
                          cache.n_ctx, y + h * dim * kTileRows, kTileRows, dim, rows, Transfer::Limit::Bytes,
                          1, tile);
            }));
    TSR_TRY(const int64_t v_bytes,
            append_part(v, cache, 0,
                        [&](uint32_t x, uint32_t, int64_t head, int64_t n, int64_t tile, int64_t rows) {
                            for (int64_t h = 0; h < n; ++h)
                                for (int64_t from = 0; from < dim;) {
                                    const int64_t channel = h * dim + from;
                                    const int64_t in_tile = channel % kTileChannels;
                                    const int64_t bytes = std::min(kTileChannels - in_tile, dim - from);
                                    const int64_t position = (head + h) * cache.n_ctx + tile * kTileRows;
                                    store(cache.v + static_cast<uint64_t>(position * dim + from), dim,
                                          x + channel / kTileChannels * rows * kTileChannels + in_tile,
                                          kTileChannels, rows, bytes, Transfer::Limit::Rows, dim, tile);
                                    from += bytes;
                                }
                        }));
    return std::max(k_bytes, v_bytes);
}

}  // namespace tessera::npu
