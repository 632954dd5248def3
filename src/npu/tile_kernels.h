#pragma once
// The inner loops of the emulator for one instruction set, as a constant table like those of
// quants/kernels/table.h. All tables give the same bits, because all arithmetic is in integers. Included by
// ISA units: only C headers, no inline functions.
#include <stddef.h>
#include <stdint.h>

namespace tessera::npu {

/// Product of the activation tiles of one row tile and one tile of 32 outputs: sums[row][n] += sum_k (x[row,
/// k] - centre) * w[k, n], with centre = 32768 for two planes and 0 for one.
struct MultiplyArgs {
    const uint8_t* high;  // high bytes [k_tiles, rows, 32]
    const uint8_t* low;   // the same; null: one plane, which is `high`
    int64_t act_stride;   // bytes from one activation tile to the next
    const int8_t* w;      // [k_tiles] weight tiles
    int64_t k_tiles;
    int64_t rows;   // 1 to 64
    int64_t* sums;  // [rows, 32]
};

/// The same for one row with packed 4-bit weights as input of expand(), multipliers in [-15, 16], and at most
/// 2056 tiles.
struct MultiplyPackedArgs {
    const uint8_t* high;  // [k_tiles, 32], act_stride apart
    const uint8_t* low;   // the same; null: one plane, which is `high`
    int64_t act_stride;
    const uint8_t* packed;
    const int8_t* mult;
    int64_t block;  // 16, 32 or 64
    int64_t k_tiles;
    int64_t* sums;  // [32]
};

struct TileKernels {
    const char* name;  // instruction set, as in quants/dispatch.h
    void (*multiply)(const MultiplyArgs& args);
    /// Multiplies 4-bit tiles [k_tiles] by their multipliers [blocks, 32] to weight tiles [k_tiles].
    void (*expand)(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w);
    /// Converts bytes with zero 128, 4 n_quads rows of 32 that are `stride` apart, to rows of weight tiles
    /// from w on. Adds the sum of each column to sums[32].
    void (*interleave)(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums);
    void (*multiply_packed)(const MultiplyPackedArgs& args);  // null: not faster than expand() and multiply()
};

extern const TileKernels kTilesScalar;
extern const TileKernels kTilesAvx2;
extern const TileKernels kTilesAvxVnni;
extern const TileKernels kTilesAvx512;
extern const TileKernels kTilesNeon;

/// The best table for an instruction set (quants/dispatch.h).
const TileKernels& tile_kernels(const char* isa_name);

}  // namespace tessera::npu
