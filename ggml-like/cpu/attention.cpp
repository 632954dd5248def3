// Attention over the paged KV cache. A task is (KV head, block of tokens): all query heads that share the KV
// head are rows of one small matrix product per page. Keys are taken in chunks of kKvChunk at absolute
// boundaries; each chunk has its own softmax, and chunks are merged in rising order, so a token's result
// depends on its position and the cache alone. The causal limit and the window are position arithmetic; there
// is no mask.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "ggml-like/cpu/backend.h"
#include "ggml-like/cpu/prefetch.h"
#include "ggml-like/cpu/tuning.h"

namespace tessera {

using cpu::prefetch_l2, cpu::prefetch_tlb;

namespace {

constexpr int64_t kChunkPages = kKvChunk / kKvPage;

bool any_not_finite(const uint16_t* halves, int64_t n) {
    int found = 0;
    for (int64_t i = 0; i < n; ++i) found |= (halves[i] & 0x7c00) == 0x7c00;
    return found != 0;
}

bool is_float(Type type) { return type == Type::F32 || type == Type::F16; }

/// Up to this many rows a product converts f16 keys or values itself, again for each tile of rows; for more
/// rows they are converted before.
constexpr int64_t kFewRows = 16;

/// Merges one row's result of a chunk into the chunks before it; a sum of 0 means that the row saw none of
/// it.
void merge_chunk(const cpu::VecTable& vec, int64_t v_dim, float max, float sum, const float* out,
                 float& run_max, float& run_sum, float* run) {
    if (sum == 0) return;
    if (run_sum != 0) return vec.softmax_merge(&run_max, &run_sum, run, max, sum, out, v_dim);
    std::memcpy(run, out, static_cast<size_t>(v_dim) * sizeof(float));
    run_max = max;
    run_sum = sum;
}

/// One worker's attention scratch, divided into its arrays.
struct AttentionScratch {
    float* queries;    // [rows, k_dim]
    float* scores;     // [rows, kKvChunk]
    float* chunk_out;  // [rows, v_dim]
    float* run_out;    // [rows, v_dim]
    float* chunk_max;  // [rows]
    float* chunk_sum;  // [rows]
    float* run_max;    // [rows]
    float* run_sum;    // [rows]
    float* page;       // [kKvPage, the larger of k_dim and v_dim]
    // The queries' int8 image, for quantized keys.
    int8_t* q;       // [rows, k_dim]
    float* d;        // [rows, k_dim / 32]
    float* s;        // [rows, k_dim / 32]
    int16_t* sum16;  // [rows, k_dim / 16]
    int16_t* sum8;   // [rows, k_dim / 8]
    // For quantized values.
    int16_t* weights;     // [rows, kKvChunk] of one block
    float* weight_tops;   // [rows]
    float* value_scales;  // [v_dim / 32 + 1, kKvChunk]
    int8_t* codes;        // [kKvChunk / 2, v_dim, 2]

    AttentionScratch(float* at, int64_t rows, const KvLayer& kv) {
        const int64_t k_dim = kv.k_dim, v_dim = kv.v_dim;
        auto take = [&at](int64_t n) {
            float* piece = at;
            at += (n + 15) / 16 * 16;
            return piece;
        };
        queries = take(rows * k_dim);
        scores = take(rows * kKvChunk);
        chunk_out = take(rows * v_dim);
        run_out = take(rows * v_dim);
        chunk_max = take(rows);
        chunk_sum = take(rows);
        run_max = take(rows);
        run_sum = take(rows);
        page = take(kKvPage * std::max(k_dim, v_dim));
        q = reinterpret_cast<int8_t*>(take(rows * k_dim / 4));
        d = take(rows * (k_dim / 32));
        s = take(rows * (k_dim / 32));
        sum16 = reinterpret_cast<int16_t*>(take(rows * (k_dim / 32)));
        sum8 = reinterpret_cast<int16_t*>(take(rows * (k_dim / 16)));
        weights = reinterpret_cast<int16_t*>(take(rows * kKvChunk / 2));
        weight_tops = take(rows);
        value_scales = take((v_dim / 32 + 1) * kKvChunk);
        codes = reinterpret_cast<int8_t*>(take(kKvChunk * v_dim / 4));
    }
};

}  // namespace

struct CpuBackend::AttnTask {
    const AttendOp<Direct>* op;
    const Segment* segment;
    int64_t kv_head;
    int64_t tok0, n_tok;       // within the segment
    int64_t prefetch_end = 0;  // the worker continues with the chunks up to this position

    int64_t n_group() const { return op->n_head / op->cache.n_head_kv; }
    int64_t n_rows() const { return n_tok * n_group(); }
    int64_t first_pos() const { return segment->pos0 + tok0; }
    int64_t last_pos() const { return first_pos() + n_tok - 1; }
    /// The layout of the queries' int8 images, for quantized keys.
    ActRun query_run() const { return {0, n_rows()}; }
    /// First key that a query at `pos` sees.
    int64_t first_key(int64_t pos) const {
        return op->window > 0 ? std::max<int64_t>(0, pos - op->window + 1) : 0;
    }
    int64_t first_chunk() const { return first_key(first_pos()) / kKvChunk; }
    int64_t last_chunk() const { return last_pos() / kKvChunk; }
    /// This head's keys or values in the page of a position.
    const std::byte* keys(int64_t pos) const { return at(pos, op->cache.k_offset, key_bytes()); }
    const std::byte* values(int64_t pos) const { return at(pos, op->cache.v_offset, value_bytes()); }
    /// The keys of a page that this worker continues with, else null.
    const std::byte* next_keys(int64_t pos) const { return pos < prefetch_end ? keys(pos) : nullptr; }
    /// Prefetches the keys of the first chunk, or their first page where each page prefetches the next one,
    /// since no product runs before them. Pages behind the window do not exist.
    void prefetch_first_keys(int64_t chunk) const {
        int64_t pos = std::max(chunk * kKvChunk, first_key(first_pos()));
        const int64_t n_ahead = is_float(op->cache.k_type) ? 1 : kKvChunk;
        const int64_t end = std::min({(chunk + 1) * kKvChunk, prefetch_end, pos + n_ahead});
        for (; pos < end; pos = (pos / kKvPage + 1) * kKvPage) prefetch_l2(keys(pos), key_bytes());
    }
    /// Bytes of one head's keys and values in a page.
    size_t key_bytes() const { return head_bytes(op->cache.k_type, op->cache.k_dim); }
    size_t value_bytes() const { return head_bytes(op->cache.v_type, op->cache.v_dim); }
    static size_t head_bytes(Type type, int64_t dim) {
        return static_cast<size_t>(kKvPage * type_info(type).row_bytes(dim));
    }
    const std::byte* at(int64_t pos, size_t offset, size_t n_bytes) const {
        return segment->pages[pos / kKvPage] + offset + static_cast<size_t>(kv_head) * n_bytes;
    }
    /// Row of the activations for query row r, and the columns where its head starts in q and in the result.
    int64_t act_row(int64_t r) const { return segment->row0 + tok0 + r / n_group(); }
    int64_t head(int64_t r) const { return kv_head * n_group() + r % n_group(); }
    int64_t q_col(int64_t r) const { return head(r) * op->cache.k_dim; }
    int64_t y_col(int64_t r) const { return head(r) * op->cache.v_dim; }
};

/// Copies the task's queries to rows, or quantizes them for quantized keys.
void CpuBackend::gather_queries(const AttnTask& unit, int worker) {
    const KvLayer& kv = unit.op->cache;
    const int64_t k_dim = kv.k_dim, n_rows = unit.n_rows();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    for (int64_t r = 0; r < n_rows; ++r) {
        const float* query = unit.op->q->row(unit.act_row(r)) + unit.q_col(r);
        if (is_float(kv.k_type))
            std::memcpy(a.queries + r * k_dim, query, static_cast<size_t>(k_dim) * sizeof(float));
        else {
            const auto [at, step] = act_place(kernels_, unit.query_run(), r, k_dim);
            kernels_.quantize_act(query, k_dim, act_row(a, at, step));
        }
    }
}

/// n numbers of a page of f16 or f32, from number `first` on, as the weights of a product with n_rows rows.
/// The same number of bytes at `next`, unless null, is prefetched: for few rows as the weights are read,
/// since of a burst only the first two dozen lines arrive early.
kernels::PanelsArgs CpuBackend::page_panels(Type type, const std::byte* page, int64_t first, int64_t n,
                                            int64_t n_rows, const std::byte* next, float* floats) {
    const size_t size = type == Type::F32 ? sizeof(float) : sizeof(uint16_t);
    kernels::PanelsArgs args{};
    args.n_tok = n_rows;
    args.w = page + static_cast<size_t>(first) * size;
    if (n_rows <= kFewRows)
        args.beside = next;
    else if (next)
        prefetch_l2(next, static_cast<size_t>(n) * size);
    if (type == Type::F32) return args;
    args.half = n_rows <= kFewRows;
    if (args.half) return args;
    vec_.f16_to_f32(static_cast<const uint16_t*>(args.w), floats, n);
    args.w = floats;
    return args;
}

/// Scores of the keys [begin, end) of one chunk by the integer product: a page's keys of one head are a
/// packed matrix.
void CpuBackend::attn_scores_quantized(const AttnTask& unit, int64_t begin, int64_t end, int worker) {
    const KvLayer& kv = unit.op->cache;
    const int64_t k_dim = kv.k_dim, n_rows = unit.n_rows(), n_scales = k_dim / 32;
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    const size_t row_bytes = static_cast<size_t>(type_info(kv.k_type).row_bytes(k_dim));
    const size_t k_bytes = unit.key_bytes(), v_bytes = unit.value_bytes();
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin, next_pos; pos < end; pos = next_pos) {
        next_pos = (pos / kKvPage + 1) * kKvPage;
        const int64_t n = std::min(next_pos, end) - pos;
        kernels::PackedMatmulArgs args{};
        args.w = unit.keys(pos) + static_cast<size_t>(pos % kKvPage) * row_bytes;
        args.n_rows = (n + kKvGroup - 1) / kKvGroup * kKvGroup;
        args.n_k = k_dim;
        args.x = {a.q, a.d, a.s, a.sum16, a.sum8, k_dim, n_scales, act_tile(kernels_, n_rows)};
        args.n_tok = n_rows;
        args.y = a.scores + (pos - base);
        args.y_stride = kKvChunk;
        args.scratch = scratch_[static_cast<size_t>(worker)].kernel;
        // The page's values are prefetched as its keys are read, and the bytes by which values are longer
        // before.
        args.tuning = kernels::kCachedWeights;
        args.beside_to_l1 = tuning_.beside_to_l1;
        const std::byte* values = unit.values(pos);
        const size_t beside = v_bytes < k_bytes ? 0 : k_bytes;
        if (beside > 0) args.beside = values + static_cast<size_t>(pos % kKvPage) * row_bytes;
        prefetch_l2(values + beside, v_bytes - beside);
        if (next_pos < end) prefetch_tlb(unit.values(next_pos), v_bytes);
        if (const std::byte* keys = unit.next_keys(next_pos - kKvPage + kKvChunk))
            prefetch_tlb(keys, k_bytes);
        kernels_.packed[static_cast<uint32_t>(kv.k_type)].matmul(args);
    }
}

/// The same from float keys: tiles of 16 positions are panels.
void CpuBackend::attn_scores_f32(const AttnTask& unit, int64_t begin, int64_t end, int worker) {
    const KvLayer& kv = unit.op->cache;
    const int64_t k_dim = kv.k_dim, n_rows = unit.n_rows(), n_tile = k_dim * kKvTile;
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin, next_pos; pos < end; pos = next_pos) {
        next_pos = (pos / kKvPage + 1) * kKvPage;
        const int64_t tile = pos % kKvPage / kKvTile;
        const int64_t n_tiles = cpu::n_blocks(std::min(next_pos, end) - pos, kKvTile);
        const std::byte* next = next_pos < end ? unit.keys(next_pos) : nullptr;
        // Quantized values are prefetched with the keys, not by their own product.
        if (!is_float(kv.v_type))
            prefetch_l2(unit.values(pos), unit.value_bytes());
        else if (!next)
            next = unit.values(begin) + begin % kKvPage * type_info(kv.v_type).row_bytes(kv.v_dim);
        kernels::PanelsArgs args =
            page_panels(kv.k_type, unit.keys(pos), tile * n_tile, n_tiles * n_tile, n_rows, next, a.page);
        args.n_panels = n_tiles;
        args.panel_size = n_tile;
        args.panel_stride = kKvTile;
        args.n_k = k_dim;
        args.x = a.queries;
        args.x_stride = k_dim;
        args.y = a.scores + (pos - base);
        args.y_stride = kKvChunk;
        kernels_.gemm_panels(args);
    }
}

/// chunk_out = scores times the values of [begin, end), positions rising.
void CpuBackend::attn_values_f32(const AttnTask& unit, int64_t begin, int64_t end, float* chunk_out,
                                 int worker) {
    const KvLayer& kv = unit.op->cache;
    const int64_t v_dim = kv.v_dim, n_rows = unit.n_rows();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    const int64_t base = begin / kKvChunk * kKvChunk;
    for (int64_t pos = begin, next_pos; pos < end; pos = next_pos) {
        next_pos = (pos / kKvPage + 1) * kKvPage;
        const int64_t n = std::min(next_pos, end) - pos, first = pos % kKvPage * v_dim;
        const std::byte* next = next_pos < end ? unit.values(next_pos) : nullptr;
        // Quantized keys of the next chunk are prefetched with the values.
        if (is_float(kv.k_type)) {
            if (!next) next = unit.next_keys(next_pos);
        } else if (const std::byte* keys = unit.next_keys(pos + kKvChunk)) {
            prefetch_l2(keys, unit.key_bytes());
        }
        kernels::PanelsArgs args =
            page_panels(kv.v_type, unit.values(pos), first, n * v_dim, n_rows, next, a.page);
        args.n_panels = v_dim / kernels::kPanelRows;
        args.panel_size = kernels::kPanelRows;
        args.panel_stride = v_dim;
        args.n_k = n;
        args.x = a.scores + (pos - base);
        args.x_stride = kKvChunk;
        args.y = chunk_out;
        args.y_stride = v_dim;
        args.accumulate = pos != begin;
        kernels_.gemm_panels(args);
    }
}

/// The same from quantized values: each row's weights are multiplied by the values' scales and rounded to
/// int16, block by block of 32 elements; the sum over the chunk is then an exact integer.
void CpuBackend::attn_values_quantized(const AttnTask& unit, int64_t begin, int64_t end, float* chunk_sum,
                                       float* chunk_out, int worker) {
    static_assert(kKvChunk == cpu::kAttnValuesPositions);
    const KvLayer& kv = unit.op->cache;
    const int64_t v_dim = kv.v_dim, n_rows = unit.n_rows(), n_blocks = v_dim / kernels::kActBlock;
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    const int64_t base = begin / kKvChunk * kKvChunk;
    const uint16_t* scales[kChunkPages];
    const int8_t* codes[kChunkPages];
    int64_t n_pairs[kChunkPages], n_parts = 0;
    for (int64_t pos = begin; pos < end; pos = (pos / kKvPage + 1) * kKvPage, ++n_parts) {
        const std::byte* page = unit.values(pos);
        const int64_t first = pos % kKvPage;
        scales[n_parts] = reinterpret_cast<const uint16_t*>(page) + first;
        const std::byte* at = page + n_blocks * kKvPage * 2;
        n_pairs[n_parts] = (std::min(kKvPage - first, end - pos) + 1) / 2;
        codes[n_parts] = reinterpret_cast<const int8_t*>(at) + first * v_dim;
        if (kv.v_type == Type::Q4_0) {
            int8_t* bytes = a.codes + (pos - base) * v_dim;
            vec_.nibble_pairs_to_int8(reinterpret_cast<const uint8_t*>(at) + first / 2 * v_dim, bytes,
                                      n_pairs[n_parts] * v_dim);
            codes[n_parts] = bytes;
        }
    }
    const int64_t n = (end - begin + kKvTile - 1) / kKvTile * kKvTile;
    float* largest = a.value_scales + n_blocks * kKvChunk;  // of each position
    std::fill(largest, largest + n, 0.0f);
    bool damaged = false;
    for (int64_t b = 0; b < n_blocks; ++b) {
        float* d = a.value_scales + b * kKvChunk;
        for (int64_t part = 0, at = 0; part < n_parts; at += 2 * n_pairs[part++]) {
            const int64_t n_part = part + 1 < n_parts ? 2 * n_pairs[part] : n - at;
            vec_.f16_to_f32(scales[part] + b * kKvPage, d + at, n_part);
            damaged |= any_not_finite(scales[part] + b * kKvPage, n_part);
        }
        for (int64_t i = 0; i < n; ++i) largest[i] = std::max(largest[i], std::fabs(d[i]));
    }
    const float* weights = a.scores + (begin - base);  // rows kKvChunk apart
    // A scale that is not finite makes the rows that see it NaN, and no others.
    for (int64_t i = 0; damaged && i < n_blocks * kKvChunk; ++i) {
        if (i % kKvChunk >= n || std::isfinite(a.value_scales[i])) continue;
        a.value_scales[i] = largest[i % kKvChunk] = 0;
        for (int64_t r = 0; r < n_rows; ++r)
            if (weights[r * kKvChunk + i % kKvChunk] > 0) chunk_sum[r] = NAN;
    }
    for (int64_t r = 0; r < n_rows; ++r)
        a.weight_tops[r] = vec_.largest_product(weights + r * kKvChunk, largest, n);
    for (int64_t b = 0; b < n_blocks; ++b) {
        for (int64_t r = 0; r < n_rows; ++r)
            vec_.products_to_int16(weights + r * kKvChunk, a.value_scales + b * kKvChunk, n, a.weight_tops[r],
                                   a.weights + r * kKvChunk);
        const int64_t element = b * kernels::kActBlock;
        const int8_t* block[kChunkPages];
        const void* next[kChunkPages];
        const size_t next_bytes = unit.key_bytes() / static_cast<size_t>(n_blocks);
        for (int64_t part = 0; part < n_parts; ++part) {
            block[part] = codes[part] + 2 * element;
            const std::byte* keys = unit.next_keys((begin / kKvPage + part) * kKvPage + kKvChunk);
            next[part] = keys ? keys + static_cast<size_t>(b) * next_bytes : nullptr;
        }
        vec_.attn_values_block({.q = a.weights,
                                .top = a.weight_tops,
                                .codes = block,
                                .n_pairs = n_pairs,
                                .n_parts = n_parts,
                                .head_dim = v_dim,
                                .n_rows = n_rows,
                                .out = chunk_out + element,
                                .next = next,
                                .next_bytes = static_cast<int64_t>(next_bytes),
                                .next_to_l1 = tuning_.beside_to_l1});
    }
}

/// Scores, softmax and values of one chunk for all rows of the task. A row that sees no key of it gets sum 0.
void CpuBackend::attn_chunk(const AttnTask& unit, int64_t chunk, float* chunk_max, float* chunk_sum,
                            float* chunk_out, int worker) {
    const KvLayer& kv = unit.op->cache;
    const int64_t n_rows = unit.n_rows(), n_group = unit.n_group();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, kv);
    const int64_t base = chunk * kKvChunk;
    const int64_t begin = std::max(base, unit.first_key(unit.first_pos()) / kKvTile * kKvTile);
    const int64_t end = std::min(base + kKvChunk, unit.last_pos() + 1);
    const int64_t n = cpu::n_blocks(end - base, kKvTile) * kKvTile;  // of a row's scores
    if (is_float(kv.k_type))
        attn_scores_f32(unit, begin, end, worker);
    else
        attn_scores_quantized(unit, begin, end, worker);
    for (int64_t r = 0; r < n_rows; ++r) {
        const int64_t pos = unit.first_pos() + r / n_group;
        const int64_t lo = std::max<int64_t>(0, unit.first_key(pos) - base);
        const int64_t hi = std::min<int64_t>(kKvChunk, pos + 1 - base);
        float* scores = a.scores + r * kKvChunk;
        if (lo < hi) {
            vec_.softmax_chunk(scores, lo, hi, n, unit.op->scale, unit.op->softcap, &chunk_max[r],
                               &chunk_sum[r]);
        } else {
            std::fill(scores, scores + n, 0.0f);
            chunk_sum[r] = 0;
        }
    }
    if (is_float(kv.v_type))
        attn_values_f32(unit, begin, end, chunk_out, worker);
    else
        attn_values_quantized(unit, begin, end, chunk_sum, chunk_out, worker);
}

void CpuBackend::finish_task(const AttnTask& unit, const float* maxima, const float* sums, ActBuffer& y) {
    const int64_t v_dim = unit.op->cache.v_dim, n_group = unit.n_group();
    for (int64_t r = 0; r < unit.n_rows(); ++r) {
        float by = 1.0f / sums[r];
        if (unit.op->sinks) {
            const float sink = unit.op->sinks.data[unit.kv_head * n_group + r % n_group];
            const float top = std::max(maxima[r], sink);
            float parts[] = {maxima[r] - top, sink - top};
            vec_.exp(parts, parts, 2);
            by = parts[0] / std::fma(sums[r], parts[0], parts[1]);
        }
        vec_.scale(y.row(unit.act_row(r)) + unit.y_col(r), by, v_dim);
    }
    if (!y.needs_int8) return;
    // The heads of a group are adjacent; int8 blocks that span groups wait for the whole row.
    for (int64_t r = 0; r < unit.n_rows() && n_group * v_dim % kernels::kActBlock == 0; r += n_group) {
        const int64_t row = unit.act_row(r), col = unit.y_col(r);
        quantize_part(y, {0, unit.op->n_tok}, row, col, n_group * v_dim, y.row(row) + col);
    }
}

void CpuBackend::attn_single_pass(const AttnTask& unit, ActBuffer& y, int worker) {
    const int64_t v_dim = unit.op->cache.v_dim, n_rows = unit.n_rows();
    const AttentionScratch a(scratch_[static_cast<size_t>(worker)].attention, n_rows, unit.op->cache);
    for (int64_t r = 0; y.needs_int8 && r < n_rows; ++r)
        prefetch_image_for_write(y, {0, unit.op->n_tok}, unit.act_row(r), unit.y_col(r), v_dim);
    gather_queries(unit, worker);
    std::fill(a.run_sum, a.run_sum + n_rows, 0.0f);
    for (int64_t chunk = unit.first_chunk(); chunk <= unit.last_chunk(); ++chunk) {
        attn_chunk(unit, chunk, a.chunk_max, a.chunk_sum, a.chunk_out, worker);
        for (int64_t r = 0; r < n_rows; ++r)
            merge_chunk(vec_, v_dim, a.chunk_max[r], a.chunk_sum[r], a.chunk_out + r * v_dim, a.run_max[r],
                        a.run_sum[r], a.run_out + r * v_dim);
    }
    for (int64_t r = 0; r < n_rows; ++r) {
        float* out = y.row(unit.act_row(r)) + unit.y_col(r);
        std::memcpy(out, a.run_out + r * v_dim, static_cast<size_t>(v_dim) * sizeof(float));
    }
    finish_task(unit, a.run_max, a.run_sum, y);
}

/// Few tokens: chunks are separate tasks too, so that one long sequence uses every thread. Partial results of
/// a round of chunks are merged in the same order as in attn_single_pass.
void CpuBackend::attn_split_kv(const AttendOp<Direct>& op) {
    const int64_t n_kv = op.cache.n_head_kv, v_dim = op.cache.v_dim, n_head = op.n_head;
    const std::span<const Segment> segments = op.segments;
    ActBuffer& y = *op.y;
    const int64_t n_units = static_cast<int64_t>(segments.size()) * n_kv;
    const int64_t rows_all =
        partial_rows_ / cpu::kSplitRound;  // rows of one chunk's slot: kSplitMaxTok * n_head
    float* sums = partials_;               // [round, rows_all]
    float* maxima = sums + partial_rows_;  // [round, rows_all]
    float* outs = maxima + partial_rows_;  // [round, rows_all, v_dim]
    float run_max[cpu::kSplitMaxTok * cpu::kMaxHeads], run_sum[cpu::kSplitMaxTok * cpu::kMaxHeads] = {};
    auto unit_at = [&](int64_t i) {
        const Segment& segment = segments[static_cast<size_t>(i / n_kv)];
        return AttnTask{&op, &segment, i % n_kv, 0, segment.n_tok};
    };
    // Rows of a task are consecutive: after those of earlier segments, then of earlier KV heads.
    auto first_row = [&](const AttnTask& unit) {
        int64_t n_tok = 0;
        for (const Segment* before = segments.data(); before != unit.segment; ++before)
            n_tok += before->n_tok;
        return n_tok * n_head + unit.kv_head * unit.n_rows();
    };
    int64_t first_chunk = INT64_MAX, last_chunk = 0;
    for (const Segment& segment : segments) {
        const AttnTask unit{&op, &segment, 0, 0, segment.n_tok};
        first_chunk = std::min(first_chunk, unit.first_chunk());
        last_chunk = std::max(last_chunk, unit.last_chunk());
    }
    const auto merge = [&](const AttnTask& unit, int64_t n_chunks) {
        for (int64_t r = 0; r < unit.n_rows(); ++r) {
            float* run = y.row(unit.act_row(r)) + unit.y_col(r);
            const int64_t row = first_row(unit) + r;
            for (int64_t at = row; at < n_chunks * rows_all; at += rows_all)
                merge_chunk(vec_, v_dim, maxima[at], sums[at], outs + at * v_dim, run_max[row], run_sum[row],
                            run);
        }
    };
    for (int64_t round = first_chunk; round <= last_chunk; round += cpu::kSplitRound) {
        const int64_t n_chunks = std::min(cpu::kSplitRound, last_chunk + 1 - round);
        const int64_t n_wanted = cpu::kSplitUnits * pool_.n_threads();
        const int64_t n_run = std::clamp<int64_t>(n_units * n_chunks / n_wanted, 1, cpu::kSplitRun);
        const int64_t n_runs = (n_chunks + n_run - 1) / n_run;
        std::atomic<int32_t> n_done[cpu::kSplitMaxTok * cpu::kMaxHeads] = {};
        pool_.run_shares(n_units * n_runs, [&](int64_t i, int worker) {
            AttnTask unit = unit_at(i / n_runs);
            const int64_t begin = round + i % n_runs * n_run;
            const int64_t end = std::min(begin + n_run, round + n_chunks);
            unit.prefetch_end = std::min(end * kKvChunk, unit.last_pos() + 1);
            unit.prefetch_first_keys(std::max(begin, unit.first_chunk()));
            gather_queries(unit, worker);
            for (int64_t chunk = begin; chunk < end; ++chunk) {
                const int64_t at = (chunk - round) * rows_all + first_row(unit);
                if (chunk < unit.first_chunk() || chunk > unit.last_chunk())
                    std::fill(sums + at, sums + at + unit.n_rows(), 0.0f);
                else
                    attn_chunk(unit, chunk, maxima + at, sums + at, outs + at * v_dim, worker);
            }
            // The last thread merges them, which saves a parallel region.
            if (n_done[i / n_runs].fetch_add(1, std::memory_order_acq_rel) + 1 < n_runs) return;
            merge(unit, n_chunks);
            if (round + n_chunks > last_chunk)
                finish_task(unit, run_max + first_row(unit), run_sum + first_row(unit), y);
        });
    }
}

void CpuBackend::compute(const AttendOp<Direct>& op) {
    const std::span<const Segment> segments = op.segments;
    const int64_t n_group = op.n_head / op.cache.n_head_kv, block = cpu::query_tokens(n_group);
    ActBuffer& y = *op.y;
    int64_t n_tok = 0, n_blocks = 0, last_pos = 0;
    for (const Segment& segment : segments) {
        n_tok += segment.n_tok;
        n_blocks += (segment.n_tok + block - 1) / block;
        last_pos = std::max(last_pos, segment.pos0 + segment.n_tok - 1);
    }
    if (n_tok <= cpu::kSplitMaxTok && last_pos >= kKvChunk) {
        attn_split_kv(op);
    } else {
        const int64_t n_kv = op.cache.n_head_kv;
        cpu::run_short(pool_, n_blocks * n_kv, n_tok, [&](int64_t i, int worker) {
            // Later tokens see more keys: the longest tasks go first.
            int64_t at = n_blocks - 1 - i / n_kv;
            const Segment* segment = segments.data();
            for (int64_t n; at >= (n = (segment->n_tok + block - 1) / block); ++segment) at -= n;
            const int64_t tok0 = at * block;
            AttnTask unit{&op, segment, i % n_kv, tok0, std::min(block, segment->n_tok - tok0)};
            unit.prefetch_end = unit.last_pos() + 1;
            unit.prefetch_first_keys(unit.first_chunk());
            attn_single_pass(unit, y, worker);
        });
    }
    if (y.needs_int8 && n_group * op.cache.v_dim % kernels::kActBlock != 0)
        for (const Segment& segment : segments)
            pool_.run(segment.n_tok, [&](int64_t t, int) {
                const int64_t row = segment.row0 + t;
                quantize_part(y, {0, op.n_tok}, row, 0, y.dim, y.row(row));
            });
}

}  // namespace tessera
