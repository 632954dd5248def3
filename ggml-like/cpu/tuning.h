#pragma once
// Sizes that shape the CPU backend's units of work. They set speed and scratch, never results.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ggml-like/backend.h"

namespace tessera::cpu {

inline int64_t n_blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

/// Tokens that one unit multiplies before its epilogue: a tile of 256 x 128 f32 is 128 KiB, within L2 next to
/// the weights' panel, and unpacking the panel (worth about 3 tokens) is shared by 256.
constexpr int64_t kTokBlock = 256;
/// Rows of a unit.
constexpr int64_t kUnitRows = 64;
/// Units that a thread takes at once with large batches, since the preparation of a product's activations
/// serves all rows; each thread's last units are taken one at a time, so that none waits long for another.
constexpr int64_t kUnitsAtOnce = 2, kLastUnits = 4;
/// Batches up to this size are memory-bound: units are ranges of rows to be streamed, each start of which
/// costs up to 2 us. A thread takes as long a range as leaves enough to the others (ThreadPool::run_ranges)
/// and multiplies up to max_rows() rows at once, packing activations once for all of them. Changing between
/// gate and up restarts the hardware prefetcher: the smaller the batch, the more rows, and with one token as
/// many as a tile of results has room for.
constexpr int64_t kMemoryBoundBatch = 64, kStreamRows = 256, kMostStreamRows = 1024;
/// Up to this batch size the start of a range costs about as much as a unit takes, so ranges are coarser: 2
/// to 2.7 % less time a token of Q4_K_M and experts, 0.3 % more for eight tokens (Zen 5).
constexpr int64_t kGemvMaxBatch = 2;
inline int64_t max_rows(int64_t n_tok) {
    if (n_tok > kMemoryBoundBatch) return kUnitsAtOnce * kUnitRows;
    if (n_tok <= 1) return kMemoryBoundBatch * kStreamRows;
    return std::clamp(kMemoryBoundBatch * kStreamRows / n_tok / kUnitRows * kUnitRows, kStreamRows,
                      kMostStreamRows);
}

/// Query rows (tokens x heads of one KV head) of an attention unit: scores of 64 x kKvChunk f32 are 128 KiB.
constexpr int64_t kQueryRows = 64;
/// Batches of up to this many tokens split attention over chunks as well, so that one long sequence uses all
/// threads.
constexpr int64_t kSplitMaxTok = 4;
/// Query heads at most; bounds small per-head state. The largest published models have 128.
constexpr int64_t kMaxHeads = 512;
/// Bytes of a group of quantized keys of the largest head (Q8_0).
constexpr size_t kMaxKvGroupBytes = kKvGroup * kMaxHeadDim / 32 * 34;
/// Chunks in one round of split attention; bounds the partial results.
constexpr int64_t kSplitRound = 64;
/// Chunks of one unit of split attention at most, and units for each thread while there are enough chunks.
constexpr int64_t kSplitRun = 8, kSplitUnits = 4;

/// Rows of less work than this many elements of a norm (about 2 us) are not worth another thread.
constexpr int64_t kAloneElements = 8192;

/// fn(row, worker) for n rows of about `elements` elements' work each: in parallel, or in the calling thread
/// where a parallel region would cost more than it saves.
template <class Pool, class Fn>
void run_rows(Pool& pool, int64_t n, int64_t elements, Fn&& fn) {
    if (n * elements > kAloneElements) return pool.run_shares(n, fn);
    for (int64_t row = 0; row < n; ++row) fn(row, 0);
}

/// Tokens of an attention unit for G query heads a KV head.
inline int64_t query_tokens(int64_t n_group) { return std::max<int64_t>(1, kQueryRows / n_group); }

/// fn(first, end, worker) for units of a matrix's rows: kUnitsAtOnce or one at a time, or ranges with a
/// memory-bound batch.
template <class Pool, class Fn>
void run_units(Pool& pool, int64_t n_units, int64_t n_tok, Fn&& fn) {
    if (n_tok <= kMemoryBoundBatch) return pool.run_ranges(n_units, fn, n_tok <= kGemvMaxBatch);
    const int64_t n_last = std::min(n_units, kLastUnits * pool.n_threads());
    const int64_t n_large = (n_units - n_last) / kUnitsAtOnce, rest = n_large * kUnitsAtOnce;
    pool.run(n_large + n_units - rest, [&](int64_t i, int worker) {
        if (i < n_large) return fn(i * kUnitsAtOnce, (i + 1) * kUnitsAtOnce, worker);
        const int64_t unit = rest + i - n_large;
        fn(unit, unit + 1, worker);
    });
}

/// fn(unit, worker) for short units: statically assigned with small batches, where cache-line transfers
/// between cores count, else in rising order, the longest first.
template <class Pool, class Fn>
void run_short(Pool& pool, int64_t n_units, int64_t n_tok, Fn&& fn) {
    if (n_tok <= kMemoryBoundBatch) return pool.run_shares(n_units, fn);
    pool.run(n_units, fn);
}

/// Floats of one tile of results: many tokens, or few tokens times max_rows(); a head is never cut.
inline int64_t tile_floats(int64_t max_rows, int64_t head_dim) {
    return std::max(std::min(max_rows, kTokBlock) * std::max(kUnitsAtOnce * kUnitRows, head_dim),
                    kMemoryBoundBatch * kStreamRows);
}

/// Floats of one worker's attention scratch (AttentionScratch in attention.cpp), for up to n_group query
/// heads a KV head.
inline size_t attention_scratch_floats(int64_t n_group, int64_t k_dim, int64_t v_dim) {
    const int64_t rows = std::max(kQueryRows, n_group);
    const int64_t int8_image = rows * k_dim / 4 + 5 * rows * ((k_dim + 31) / 32) + 16 * 5;
    const int64_t int16_weights =
        rows * (kKvChunk / 2 + 1) + kKvChunk * v_dim / 4 + (v_dim / 32 + 1) * kKvChunk + 16 * 4;
    return static_cast<size_t>(rows * (k_dim + 2 * v_dim + kKvChunk + 4) + kKvPage * std::max(k_dim, v_dim) +
                               16 * 9 + int8_image + int16_weights);
}

}  // namespace tessera::cpu
