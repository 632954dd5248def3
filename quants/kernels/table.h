#pragma once
// The kernels of one instruction set: a constant table of functions, chosen once at start. Every entry obeys
// the numerical contract (docs/design/numerics.md), so all tables give the same bits. Included by ISA units:
// only C headers here, and nothing inline.
#include <stddef.h>
#include <stdint.h>

#include "quants/kernels/packed.h"

namespace tessera::kernels {

/// Rows of W in one k-major panel: two 8-lane vectors.
constexpr int kPanelRows = 16;
/// k per panel: 16 x 256 f32 = 16 KiB, which stays in L1 while 512 tokens pass by; also one superblock.
constexpr int kPanelK = 256;

/// Slots of KernelTable::matmul_f32 are indexed by GGUF type id, all of which are below this.
constexpr int kMaxTypeId = 64;

/// y[t, r] = sum_k w[r, k] * x[t, k], k rising, one fma each from +0: acc = fma(w, x, acc).
struct MatmulArgs {
    const void* w;  // [n_rows, n_k] blocks of the type, rows w_stride bytes apart, any alignment
    size_t w_stride;
    int64_t n_rows;  // any; work is done in groups of kPanelRows, tails included
    int64_t n_k;     // multiple of the type's block
    const float* x;  // [n_tok, n_k], rows x_stride floats apart
    int64_t x_stride;
    int64_t n_tok;
    float* y;  // [n_tok, n_rows], rows y_stride floats apart; overwritten
    int64_t y_stride;
    float* scratch;  // kScratchFloats, 64-byte aligned, private to the calling thread
    /// For packed weights: PackedMatmulArgs::next, and the prefetch distance.
    const void* next = nullptr;
    PrefetchDistance prefetch = kFloatsTwoSteps;
};
constexpr size_t kScratchFloats = 13 * static_cast<size_t>(kPanelRows) * kPanelK;

using MatmulFn = void (*)(const MatmulArgs&);

/// The same product with W given as k-major panels of 16 rows, in f32, or in f16 that is converted as it is
/// read: w[16 p + r, k] is number p * panel_size + k * panel_stride + r.
struct PanelsArgs {
    const void* w;
    bool half;  // f16
    int64_t n_panels;
    int64_t panel_size;    // from one panel to the next, in numbers
    int64_t panel_stride;  // from one k to the next
    int64_t n_k;
    const float* x;  // [n_tok, n_k], rows x_stride floats apart
    int64_t x_stride;
    int64_t n_tok;
    float* y;  // [n_tok, 16 * n_panels], rows y_stride floats apart
    int64_t y_stride;
    bool accumulate;               // y holds the sum so far and is added to (bit-equal to one longer call)
    const void* beside = nullptr;  // prefetched byte for byte as the weights are read; null for none
};
using GemmPanelsFn = void (*)(const PanelsArgs&);

/// n weights to blocks, as TypeInfo::quantize: the same bytes from every table.
using EncodeFn = void (*)(const float* src, const float* importance, void* dst, int64_t n);

struct KernelTable {
    const char* name;                 // "scalar", "avx2"
    MatmulFn matmul_f32[kMaxTypeId];  // by type id; null for ids that are no weight types
    // The same for packed floats: w points at a group (packed.h), w_stride is a row's bytes. Null for other
    // types.
    MatmulFn matmul_packed_f32[kMaxTypeId];
    GemmPanelsFn gemm_panels;
    PackedKernels packed[kMaxTypeId];  // by type id; null functions for a type without a packed path
    QuantizeActFn quantize_act;
    int64_t act_tile = 1;  // tokens per tile in products of many tokens, a power of two; 1: no tiles
    EncodeFn
        encode[kMaxTypeId];  // by type id; null for a type whose encoder does not search, or that has none
};

/// Defined by the units of quants/arch/<isa>. Calling into a table that the processor cannot run is
/// undefined.
extern const KernelTable kScalarTable;
extern const KernelTable kAvx2Table;
extern const KernelTable kAvxVnniTable;
extern const KernelTable kAvx512VnniTable;
extern const KernelTable kNeonTable;
extern const KernelTable kDotprodTable;
extern const KernelTable kI8mmTable;

}  // namespace tessera::kernels
