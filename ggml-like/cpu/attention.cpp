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

/// Scores, softmax and values of one chunk for all rows of the unit. A row that sees no key of it gets sum 0.
void CpuBackend::attend_chunk(const AttendUnit& unit, int64_t chunk, float* chunk_max, float* chunk_sum,
                              float* chunk_out, int worker) {
    const KvLayer& kv = unit.args->kv;
    const int64_t head_dim = kv.head_dim, n_rows = unit.n_rows(), n_group = unit.n_group();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, head_dim);
    for (int64_t r = 0; r < n_rows; ++r)
        std::memcpy(a.queries + r * head_dim, unit.q->row(unit.act_row(r)) + unit.act_col(r),
                    static_cast<size_t>(head_dim) * sizeof(float));

    const int64_t base = chunk * kKvChunk;
    const int64_t begin = std::max(base, unit.first_key(unit.first_pos()) / kKvTile * kKvTile);
    const int64_t end = std::min(base + kKvChunk, unit.last_pos() + 1);
    // The head's keys or values of one page as f32 from position `pos` on, n positions.
    auto load = [&](Type type, size_t offset, int64_t element0, int64_t n_elements,
                    int64_t pos) -> const float* {
        const std::byte* page = unit.segment->pages[pos / kKvPage] + offset;
        if (type == Type::F32) return reinterpret_cast<const float*>(page) + element0;
        vec_.f16_to_f32(reinterpret_cast<const uint16_t*>(page) + element0, a.page, n_elements);
        return a.page;
    };
    for (int64_t pos = begin; pos < end; pos += kKvTile) {
        const int64_t tile = unit.kv_head * (kKvPage / kKvTile) + pos % kKvPage / kKvTile;
        const float* keys = load(kv.k_type, kv.k_offset, tile * head_dim * kKvTile, head_dim * kKvTile, pos);
        kernels_.gemm_panel(keys, kKvTile, head_dim, a.queries, head_dim, n_rows, a.scores + (pos - base),
                            kKvChunk, false);
    }
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
    for (int64_t pos = begin; pos < end;) {
        const int64_t page_end = std::min((pos / kKvPage + 1) * kKvPage, end);
        const int64_t n = page_end - pos;
        const int64_t element0 = (unit.kv_head * kKvPage + pos % kKvPage) * head_dim;
        const float* values = load(kv.v_type, kv.v_offset, element0, n * head_dim, pos);
        for (int64_t d = 0; d < head_dim; d += kernels::kPanelRows)
            kernels_.gemm_panel(values + d, head_dim, n, a.scores + (pos - base), kKvChunk, n_rows,
                                chunk_out + d, head_dim, pos != begin);
        pos = page_end;
    }
}

void CpuBackend::finish_row(float* out, float sum, int64_t n) { vec_.scale(out, 1.0f / sum, n); }

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
        finish_row(out, a.run_sum[r], head_dim);
    }
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
        return unit.segment->row0 * n_head + unit.kv_head * unit.n_rows();
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
                if (round + n_chunks > last_chunk) finish_row(run, run_sum[row], head_dim);
            }
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
    quantize_rows(y, n_tok);
}

}  // namespace tessera
