// Attention over the paged cache. A unit is (KV head, block of tokens): all query heads that share the KV
// head are rows of one small matrix product per page. Keys are taken in chunks of kKvChunk at absolute
// boundaries; each chunk's softmax stands alone and chunks are joined in rising order, so the result of a
// token depends on its position and the cache alone. The causal limit and the window are position arithmetic;
// no mask exists.
#include <algorithm>
#include <cstring>

#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/limits.h"

namespace tessera {

namespace {

/// One worker's attention scratch, cut into its arrays.
struct AttentionScratch {
    float* queries;    // [rows, head_dim]
    float* scores;     // [rows, kKvChunk]
    float* chunk_out;  // [rows, head_dim]
    float* run_out;    // [rows, head_dim]
    float* chunk_max;  // [rows]
    float* chunk_sum;  // [rows]
    float* run_max;    // [rows]
    float* run_sum;    // [rows]
    float* page;       // [kKvPage, head_dim]
    // The queries' int8 image, for quantized keys.
    int8_t* q;       // [rows, head_dim]
    float* d;        // [rows, head_dim / 32]
    float* s;        // [rows, head_dim / 32]
    int16_t* sum16;  // [rows, head_dim / 16]

    AttentionScratch(float* at, int64_t rows, int64_t head_dim) {
        auto take = [&at](int64_t n) {
            float* piece = at;
            at += (n + 15) / 16 * 16;
            return piece;
        };
        queries = take(rows * head_dim);
        scores = take(rows * kKvChunk);
        chunk_out = take(rows * head_dim);
        run_out = take(rows * head_dim);
        chunk_max = take(rows);
        chunk_sum = take(rows);
        run_max = take(rows);
        run_sum = take(rows);
        page = take(kKvPage * head_dim);
        q = reinterpret_cast<int8_t*>(take(rows * head_dim / 4));
        d = take(rows * (head_dim / 32));
        s = take(rows * (head_dim / 32));
        sum16 = reinterpret_cast<int16_t*>(take(rows * (head_dim / 32)));
    }
};

}  // namespace

struct CpuBackend::AttendUnit {
    const AttendArgs* args;
    const Segment* segment;
    const Act* q;
    int64_t kv_head;
    int64_t tok0, n_tok;  // within the segment

    int64_t n_group() const { return args->n_head / args->kv.n_head_kv; }
    int64_t n_rows() const { return n_tok * n_group(); }
    int64_t first_pos() const { return segment->pos0 + tok0; }
    int64_t last_pos() const { return first_pos() + n_tok - 1; }
    /// First key that a query at `pos` sees.
    int64_t first_key(int64_t pos) const {
        return args->window > 0 ? std::max<int64_t>(0, pos - args->window + 1) : 0;
    }
    int64_t first_chunk() const { return first_key(first_pos()) / kKvChunk; }
    int64_t last_chunk() const { return last_pos() / kKvChunk; }
    /// Row of the activation for query row r, and the column where its head starts.
    int64_t act_row(int64_t r) const { return segment->row0 + tok0 + r / n_group(); }
    int64_t act_col(int64_t r) const { return (kv_head * n_group() + r % n_group()) * args->kv.head_dim; }
};

/// Scores of the keys [begin, end) of one chunk by the integer product: the queries are quantized as any
/// activation is, and a page's keys of one head are a packed matrix.
void CpuBackend::score_quantized(const AttendUnit& unit, int64_t begin, int64_t end, int worker) {
    const KvLayer& kv = unit.args->kv;
    const int64_t head_dim = kv.head_dim, n_rows = unit.n_rows(), n_scales = head_dim / 32;
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    for (int64_t r = 0; r < n_rows; ++r)
        kernels_.quantize_act(
            a.queries + r * head_dim, head_dim,
            {a.q + r * head_dim, a.d + r * n_scales, a.s + r * n_scales, a.sum16 + r * 2 * n_scales});
    const size_t row_bytes = static_cast<size_t>(type_info(kv.k_type).row_bytes(head_dim));
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin; pos < end; pos = (pos / kKvPage + 1) * kKvPage) {
        const int64_t n = std::min((pos / kKvPage + 1) * kKvPage, end) - pos;
        kernels::PackedMatmulArgs args{};
        args.w = unit.segment->pages[pos / kKvPage] + kv.k_offset +
                 static_cast<size_t>(unit.kv_head * kKvPage + pos % kKvPage) * row_bytes;
        args.n_rows = (n + kKvGroup - 1) / kKvGroup * kKvGroup;
        args.n_k = head_dim;
        args.x = {a.q, a.d, a.s, a.sum16, head_dim, n_scales};
        args.n_tok = n_rows;
        args.y = a.scores + (pos - base);
        args.y_stride = kKvChunk;
        args.scratch = scratch_[static_cast<size_t>(worker)].kernel;
        kernels_.packed[static_cast<uint32_t>(kv.k_type)].matmul(args);
    }
}

/// The same from float keys: tiles of 16 positions are panels.
void CpuBackend::score_float(const AttendUnit& unit, int64_t begin, int64_t end, int worker) {
    const KvLayer& kv = unit.args->kv;
    const int64_t head_dim = kv.head_dim, n_rows = unit.n_rows(), n_tile = head_dim * kKvTile;
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin; pos < end; pos += kKvTile) {
        const int64_t tile = unit.kv_head * (kKvPage / kKvTile) + pos % kKvPage / kKvTile;
        const std::byte* page = unit.segment->pages[pos / kKvPage] + kv.k_offset;
        const float* keys = a.page;
        if (kv.k_type == Type::F32)
            keys = reinterpret_cast<const float*>(page) + tile * n_tile;
        else
            vec_.f16_to_f32(reinterpret_cast<const uint16_t*>(page) + tile * n_tile, a.page, n_tile);
        kernels_.gemm_panel(keys, kKvTile, head_dim, a.queries, head_dim, n_rows, a.scores + (pos - base),
                            kKvChunk, false);
    }
}

/// chunk_out = scores times the values of [begin, end), positions rising.
void CpuBackend::weigh_values(const AttendUnit& unit, int64_t begin, int64_t end, float* chunk_out,
                              int worker) {
    const KvLayer& kv = unit.args->kv;
    const int64_t head_dim = kv.head_dim, n_rows = unit.n_rows();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    const size_t row_bytes = static_cast<size_t>(type_info(kv.v_type).row_bytes(head_dim));
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin; pos < end;) {
        const int64_t page_end = std::min((pos / kKvPage + 1) * kKvPage, end);
        const int64_t n = page_end - pos;
        const std::byte* rows = unit.segment->pages[pos / kKvPage] + kv.v_offset +
                                static_cast<size_t>(unit.kv_head * kKvPage + pos % kKvPage) * row_bytes;
        const float* values = a.page;
        if (kv.v_type == Type::F32)
            values = reinterpret_cast<const float*>(rows);
        else if (kv.v_type == Type::F16)
            vec_.f16_to_f32(reinterpret_cast<const uint16_t*>(rows), a.page, n * head_dim);
        else if (kv.v_type == Type::Q8_0)
            vec_.q8_0_to_f32(rows, a.page, n * head_dim);
        else
            vec_.q4_0_to_f32(rows, a.page, n * head_dim);
        for (int64_t d = 0; d < head_dim; d += kernels::kPanelRows)
            kernels_.gemm_panel(values + d, head_dim, n, a.scores + (pos - base), kKvChunk, n_rows,
                                chunk_out + d, head_dim, pos != begin);
        pos = page_end;
    }
}

/// Scores, softmax and values of one chunk for all rows of the unit. A row that sees no key of it gets sum 0.
void CpuBackend::attend_chunk(const AttendUnit& unit, int64_t chunk, float* chunk_max, float* chunk_sum,
                              float* chunk_out, int worker) {
    const int64_t head_dim = unit.args->kv.head_dim, n_rows = unit.n_rows(), n_group = unit.n_group();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    for (int64_t r = 0; r < n_rows; ++r)
        std::memcpy(a.queries + r * head_dim, unit.q->row(unit.act_row(r)) + unit.act_col(r),
                    static_cast<size_t>(head_dim) * sizeof(float));

    const int64_t base = chunk * kKvChunk;
    const int64_t begin = std::max(base, unit.first_key(unit.first_pos()) / kKvTile * kKvTile);
    const int64_t end = std::min(base + kKvChunk, unit.last_pos() + 1);
    if (unit.args->kv.k_type == Type::F32 || unit.args->kv.k_type == Type::F16)
        score_float(unit, begin, end, worker);
    else
        score_quantized(unit, begin, end, worker);
    for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t pos = unit.first_pos() + r / n_group;
        const int64_t lo = std::max<int64_t>(0, unit.first_key(pos) - base);
        const int64_t hi = std::min<int64_t>(kKvChunk, pos + 1 - base);
        float* scores = a.scores + r * kKvChunk;
        if (lo < hi) {
            vec_.softmax_chunk(scores, lo, hi, kKvChunk, unit.args->scale, unit.args->softcap, &chunk_max[r],
                               &chunk_sum[r]);
        } else {
            std::fill(scores, scores + kKvChunk, 0.0f);
            chunk_sum[r] = 0;
        }
    }
    weigh_values(unit, begin, end, chunk_out, worker);
}

void CpuBackend::finish_unit(const AttendUnit& unit, const float* sums, Act& y) {
    const int64_t head_dim = unit.args->kv.head_dim, n_group = unit.n_group();
    for (int64_t r = 0; r < unit.n_rows(); ++r)
        vec_.scale(y.row(unit.act_row(r)) + unit.act_col(r), 1.0f / sums[r], head_dim);
    if (!y.wants_int8) return;
    // The heads of a group are neighbours; int8 blocks that lie across groups wait for the whole row.
    for (int64_t r = 0; r < unit.n_rows() && n_group * head_dim % kernels::kActBlock == 0; r += n_group)
        quantize_part(y, unit.act_row(r), unit.act_col(r), n_group * head_dim);
}

void CpuBackend::attend_whole(const AttendUnit& unit, Act& y, int worker) {
    const int64_t head_dim = unit.args->kv.head_dim, n_rows = unit.n_rows();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    std::fill(a.run_sum, a.run_sum + n_rows, 0.0f);
    for (int64_t chunk = unit.first_chunk(); chunk <= unit.last_chunk(); ++chunk) {
        attend_chunk(unit, chunk, a.chunk_max, a.chunk_sum, a.chunk_out, worker);
        for (int64_t r = 0; r < n_rows; ++r) {
            if (a.chunk_sum[r] == 0) continue;
            float* run = a.run_out + r * head_dim;
            const float* out = a.chunk_out + r * head_dim;
            if (a.run_sum[r] == 0) {
                std::memcpy(run, out, static_cast<size_t>(head_dim) * sizeof(float));
                a.run_max[r] = a.chunk_max[r];
                a.run_sum[r] = a.chunk_sum[r];
            } else {
                vec_.softmax_merge(&a.run_max[r], &a.run_sum[r], run, a.chunk_max[r], a.chunk_sum[r], out,
                                   head_dim);
            }
        }
    }
    for (int64_t r = 0; r < n_rows; ++r) {
        float* out = y.row(unit.act_row(r)) + unit.act_col(r);
        std::memcpy(out, a.run_out + r * head_dim, static_cast<size_t>(head_dim) * sizeof(float));
    }
    finish_unit(unit, a.run_sum, y);
}

/// Few tokens: chunks are units too, so that one long sequence uses every thread. Partial results of a round
/// of chunks are joined in the same order as attend_whole joins them.
void CpuBackend::attend_split(const Act& q, const AttendArgs& args, std::span<const Segment> segments,
                              Act& y) {
    const int64_t n_kv = args.kv.n_head_kv, head_dim = args.kv.head_dim, n_head = args.n_head;
    const int64_t n_units = static_cast<int64_t>(segments.size()) * n_kv;
    const int64_t rows_all =
        partial_rows_ / cpu::kSplitRound;  // rows of one chunk's slot: kSplitMaxTok * n_head
    float* sums = partials_;               // [round, rows_all]
    float* maxima = sums + partial_rows_;  // [round, rows_all]
    float* outs = maxima + partial_rows_;  // [round, rows_all, head_dim]
    float run_max[cpu::kSplitMaxTok * cpu::kMaxHeads], run_sum[cpu::kSplitMaxTok * cpu::kMaxHeads] = {};
    auto unit_at = [&](int64_t i) {
        const Segment& segment = segments[static_cast<size_t>(i / n_kv)];
        return AttendUnit{&args, &segment, &q, i % n_kv, 0, segment.n_tok};
    };
    // Rows of a unit are consecutive: those of the segments before it, then those of the KV heads before it.
    auto first_row = [&](const AttendUnit& unit) {
        int64_t n_tok = 0;
        for (const Segment* before = segments.data(); before != unit.segment; ++before)
            n_tok += before->n_tok;
        return n_tok * n_head + unit.kv_head * unit.n_rows();
    };
    int64_t first_chunk = INT64_MAX, last_chunk = 0;
    for (const Segment& segment : segments) {
        const AttendUnit unit{&args, &segment, &q, 0, 0, segment.n_tok};
        first_chunk = std::min(first_chunk, unit.first_chunk());
        last_chunk = std::max(last_chunk, unit.last_chunk());
    }
    for (int64_t round = first_chunk; round <= last_chunk; round += cpu::kSplitRound) {
        const int64_t n_chunks = std::min(cpu::kSplitRound, last_chunk + 1 - round);
        pool_.run(n_units * n_chunks, [&](int64_t i, int worker) {
            const AttendUnit unit = unit_at(i % n_units);
            const int64_t chunk = round + i / n_units;
            const int64_t at = i / n_units * rows_all + first_row(unit);
            if (chunk < unit.first_chunk() || chunk > unit.last_chunk())
                std::fill(sums + at, sums + at + unit.n_rows(), 0.0f);
            else
                attend_chunk(unit, chunk, maxima + at, sums + at, outs + at * head_dim, worker);
        });
        pool_.run(n_units, [&](int64_t i, int) {
            const AttendUnit unit = unit_at(i);
            for (int64_t r = 0; r < unit.n_rows(); ++r) {
                float* run = y.row(unit.act_row(r)) + unit.act_col(r);
                const int64_t row = first_row(unit) + r;
                for (int64_t c = 0; c < n_chunks; ++c) {
                    const int64_t at = c * rows_all + row;
                    if (sums[at] == 0) continue;
                    if (run_sum[row] == 0) {
                        std::memcpy(run, outs + at * head_dim, static_cast<size_t>(head_dim) * sizeof(float));
                        run_max[row] = maxima[at];
                        run_sum[row] = sums[at];
                    } else {
                        vec_.softmax_merge(&run_max[row], &run_sum[row], run, maxima[at], sums[at],
                                           outs + at * head_dim, head_dim);
                    }
                }
            }
            if (round + n_chunks > last_chunk) finish_unit(unit, run_sum + first_row(unit), y);
        });
    }
}

void CpuBackend::attend(const Act& q, const AttendArgs& args, std::span<const Segment> segments, Act& y) {
    const int64_t block = cpu::query_tokens(args.n_head / args.kv.n_head_kv);
    int64_t n_tok = 0, n_blocks = 0, last_pos = 0;
    for (const Segment& segment : segments) {
        n_tok += segment.n_tok;
        n_blocks += (segment.n_tok + block - 1) / block;
        last_pos = std::max(last_pos, segment.pos0 + segment.n_tok - 1);
    }
    if (n_tok <= cpu::kSplitMaxTok && last_pos >= kKvChunk) {
        attend_split(q, args, segments, y);
    } else {
        const int64_t n_kv = args.kv.n_head_kv;
        pool_.run(n_blocks * n_kv, [&](int64_t i, int worker) {
            // Later tokens see more keys: the longest units go first.
            int64_t at = n_blocks - 1 - i / n_kv;
            const Segment* segment = segments.data();
            for (int64_t n; at >= (n = (segment->n_tok + block - 1) / block); ++segment) at -= n;
            const int64_t tok0 = at * block;
            attend_whole({&args, segment, &q, i % n_kv, tok0, std::min(block, segment->n_tok - tok0)}, y,
                         worker);
        });
    }
    if (y.wants_int8 && args.n_head / args.kv.n_head_kv * args.kv.head_dim % kernels::kActBlock != 0)
        for (const Segment& segment : segments)
            pool_.run(segment.n_tok, [&](int64_t t, int) { quantize_part(y, segment.row0 + t, 0, y.dim); });
}

}  // namespace tessera
