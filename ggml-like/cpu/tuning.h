#pragma once
// Sizes that shape the CPU verbs' units of work. They set speed and scratch, never results.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "ggml-like/backend.h"

namespace tessera::cpu {

/// Tokens that one unit multiplies before its epilogue: a tile of 256 x 128 f32 is 128 KiB, within L2 next to
/// the weights' panel, and unpacking the panel (worth about 3 tokens) is shared by 256.
constexpr int64_t kTokBlock = 256;
/// Rows of a unit.
constexpr int64_t kUnitRows = 64;
/// Units of many tokens that a thread takes at once, since what a product makes of its activations serves all
/// rows; the last ones for each thread are taken one at a time, so that none waits long for another.
constexpr int64_t kUnitsAtOnce = 2, kLastUnits = 4;
/// With few tokens units are stretches of memory to be streamed, and each start costs: a thread takes as many
/// in a row as leave enough to the others (ThreadPool::run_ranges), and multiplies up to stream_rows() at
/// once, for all of which it lays out the tokens once. Between gate and up it goes to and fro, and what the
/// processor has read ahead there is lost: the fewer tokens, the more rows, and of one as many as a tile of
/// results has room for. Of many tokens stream_rows() are those of a thread's units.
constexpr int64_t kMemoryBoundBatch = 64, kStreamRows = 256, kMostStreamRows = 1024;
/// Up to so many tokens wait for memory, and starts cost about as much as units.
constexpr int64_t kGemvMaxBatch = 2;
inline int64_t stream_rows(int64_t n_tok) {
    if (n_tok > kMemoryBoundBatch) return kUnitsAtOnce * kUnitRows;
    if (n_tok <= 1) return kMemoryBoundBatch * kStreamRows;
    return std::clamp(kMemoryBoundBatch * kStreamRows / n_tok / kUnitRows * kUnitRows, kStreamRows,
                      kMostStreamRows);
}

/// Up to so many tokens' weights are read in pieces (regions.h) where kernels read streams far apart; rows
/// that a unit has of each piece, if no block of activations is made of them.
constexpr int64_t kPieceTok = 2, kPieceRows = 16;

/// Query rows (tokens x heads of one KV head) of an attention unit: scores of 64 x kKvChunk f32 are 128 KiB.
constexpr int64_t kQueryRows = 64;
/// Batches of up to this many tokens split attention over chunks as well, so that one long sequence uses all
/// threads.
constexpr int64_t kSplitMaxTok = 4;
/// Query heads at most; bounds small per-head state. The largest published models have 128.
constexpr int64_t kMaxHeads = 512;
/// Elements of a head at most, and what a group of quantized keys of that size takes (Q8_0).
constexpr int64_t kMaxHeadDim = 512;
constexpr size_t kMaxKvGroupBytes = kKvGroup * kMaxHeadDim / 32 * 34;
/// Chunks in one round of split attention; bounds the partial results.
constexpr int64_t kSplitRound = 64;
/// Chunks of one unit of split attention at most, and units for each thread while there are enough chunks.
constexpr int64_t kSplitRun = 8, kSplitUnits = 4;

/// Parts of this many tokens' rows are asked for before they are written: rows lie too far apart for the
/// processor to see the next one coming.
constexpr int64_t kRowsAhead = 8;

/// Rows of less work than this many elements of a norm (about 2 us) are not worth another thread.
constexpr int64_t kAloneElements = 8192;

/// fn(row, worker) for n rows of about `elements` elements' work each: one phase, or where that would cost
/// more than it saves the caller's own loop.
template <class Pool, class Fn>
void run_rows(Pool& pool, int64_t n, int64_t elements, Fn&& fn) {
    if (n * elements > kAloneElements) return pool.run_shares(n, fn);
    for (int64_t row = 0; row < n; ++row) fn(row, 0);
}

/// Tokens of an attention unit for G query heads a KV head.
inline int64_t query_tokens(int64_t n_group) { return std::max<int64_t>(1, kQueryRows / n_group); }

/// fn(first, end, worker) for units of a matrix's rows: kUnitsAtOnce or one, or ranges with few tokens.
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

/// fn(unit, worker) for units of little work with few tokens, where the way between threads' caches counts;
/// else in rising order, the longest first.
template <class Pool, class Fn>
void run_short(Pool& pool, int64_t n_units, int64_t n_tok, Fn&& fn) {
    if (n_tok <= kMemoryBoundBatch) return pool.run_shares(n_units, fn);
    pool.run(n_units, fn);
}

/// Floats of one tile of results: many tokens or few by stream_rows(); a head is never cut.
inline int64_t tile_floats(int64_t max_rows, int64_t head_dim) {
    return std::max(std::min(max_rows, kTokBlock) * std::max(kUnitsAtOnce * kUnitRows, head_dim),
                    kMemoryBoundBatch * kStreamRows);
}

inline int64_t n_blocks(int64_t n, int64_t block) { return (n + block - 1) / block; }

/// Floats of one worker's attention scratch (AttentionScratch in attention.cpp).
inline size_t attention_scratch_floats(int64_t n_head, int64_t n_head_kv, int64_t head_dim) {
    const int64_t n_group = n_head / n_head_kv;
    const int64_t rows = query_tokens(n_group) * n_group;
    const int64_t int8_image = rows * head_dim / 4 + 5 * rows * ((head_dim + 31) / 32) + 16 * 5;
    const int64_t int16_weights =
        rows * (kKvChunk / 2 + 1) + kKvChunk * head_dim / 4 + (head_dim / 32 + 1) * kKvChunk + 16 * 4;
    return static_cast<size_t>(rows * (3 * head_dim + kKvChunk + 4) + kKvPage * head_dim + 16 * 9 +
                               int8_image + int16_weights);
}

}  // namespace tessera::cpu
