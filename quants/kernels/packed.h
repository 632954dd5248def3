#pragma once
// The packed integer path: weights in P8x4 order (8 rows interleaved by 4 consecutive k, same byte count as
// on disk) times activations quantized to int8 per 32. Layouts: docs/formats/packed-layouts.md. Contract:
// docs/design/numerics.md. Included by ISA units: only C headers here, and nothing inline.
#include <stddef.h>
#include <stdint.h>

#include "quants/kernels/tuning.h"

namespace tessera::kernels {

/// Rows of a packed group. Its bytes are exactly 8 rows of the type; groups follow each other; the last group
/// of a matrix is padded with all-zero rows.
constexpr int kGroupRows = 8;
/// Activation scales are per this many k; every packed type's row is a multiple of it.
constexpr int kActBlock = 32;
/// An activation block whose largest magnitude is below this counts as all zero, so that 127 / amax stays
/// finite.
constexpr float kActSmallest = 0x1p-119f;

/// Quantized tokens. d = amax / 127 of each 32-block (0 for an all-zero block), q = rint(x * (127 / amax))
/// to nearest even, in [-127, 127]; sums are exact.
///
/// Tokens of a batch may lie in tiles instead of rows, as a table's products read them: `tile` tokens next to
/// each other, the last tile as wide as tokens are left, every array [tile, n_k / 32, width of the tile]
/// blocks of 32 k. Then q_stride is n_k and d_stride n_k / 32. (quants/act_layout.h)
struct ActView {
    const int8_t* q;       // [n_tok, n_k], rows q_stride apart
    const float* d;        // [n_tok, n_k / 32], rows d_stride apart
    const float* s;        // [n_tok, n_k / 32] d * sum(q), rows d_stride apart
    const int16_t* sum16;  // [n_tok, n_k / 16] sum of q over 16 k, rows 2 * d_stride apart
    // [n_tok, n_k / 8] of each 16 k the sum of q where k % 4 < 2, then of the others, rows 4 * d_stride apart
    const int16_t* sum8;
    int64_t q_stride, d_stride;
    int64_t tile = 1;  // tokens of a tile; 1: rows
};
/// Minimum batch for the tiled activation layout, if the table has one.
constexpr int64_t kFewestTiled = 8;

/// The same, writable, for one token, whose consecutive blocks lie `step` blocks apart: 1 in a row.
struct ActRow {
    int8_t* q;       // [n_k]
    float* d;        // [n_k / 32]
    float* s;        // [n_k / 32]
    int16_t* sum16;  // [n_k / 16]
    int16_t* sum8;   // [n_k / 8]
    int64_t step = 1;
};

/// Quantizes one token of n_k (multiple of 32) floats. NaN counts as 0, infinities as the largest finite
/// float.
using QuantizeActFn = void (*)(const float* x, int64_t n_k, const ActRow& out);

/// Packs n_rows (1..8, the rest zero) rows of n_k weights, w_stride bytes apart and at any alignment, into
/// one group; and its exact inverse.
using PackFn = void (*)(const void* w, size_t w_stride, int n_rows, int64_t n_k, void* group);
using UnpackFn = void (*)(const void* group, int n_rows, int64_t n_k, void* w, size_t w_stride);

struct PackedMatmulArgs {
    const void* w;   // packed groups, group_bytes = 8 rows of the type; 64-byte aligned base not assumed
    int64_t n_rows;  // rows wanted: a multiple of 8 or the matrix's end
    int64_t n_k;
    ActView x;
    int64_t n_tok;
    float* y;  // [n_tok, n_rows], rows y_stride floats apart; overwritten
    int64_t y_stride;
    void* scratch;  // kPackedScratchBytes, 64-byte aligned, private to the calling thread
    WeightTuning tuning = {};
    /// The weights of as many k that this thread multiplies with next, prefetched towards the end of a
    /// product of few tokens; null if unknown.
    const void* next = nullptr;
    /// Memory of the weights' size, each of whose bytes is prefetched as the weights' byte is read, to L1 or
    /// L2; null for none.
    const void* beside = nullptr;
    bool beside_to_l1 = false;
};
constexpr size_t kPackedScratchBytes = size_t{512} << 10;  // a panel of up to 160 KiB, and tokens

using PackedMatmulFn = void (*)(const PackedMatmulArgs&);

/// The packed path of one type; all null for a type without one. Floats are packed too, and have no integer
/// product: KernelTable::matmul_packed_f32.
struct PackedKernels {
    PackFn pack;
    UnpackFn unpack;
    PackedMatmulFn matmul;
};

}  // namespace tessera::kernels
