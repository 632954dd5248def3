#pragma once
// The inner loops of the emulator, for one instruction set: a constant table, as quants/kernels/table.h
// has them. All tables give the same bits, since all of it is integers. Included by ISA units: only C headers
// here, and nothing inline.
#include <stddef.h>
#include <stdint.h>

namespace tessera::npu {

/// Activation tiles of one row tile and one tile of 32 outputs. sums[row][n] += sum_k (x[row, k] - centre) *
/// w[k, n], centre = 32768 with two planes and 0 with one.
struct MultiplyArgs {
    const uint8_t* high;  // [k_tiles, rows, 32]
    const uint8_t* low;   // the same; null: one plane, which is `high`
    int64_t act_stride;   // bytes from one tile of activations to the next
    const int8_t* w;      // [k_tiles] weight tiles
    int64_t k_tiles;
    int64_t rows;   // 1 to 64
    int64_t* sums;  // [rows, 32]
};

/// The same of one row by weights of 4 bits as expand() takes them, multipliers from -15 to 16, of at most
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
    const char* name;  // of the instruction set, as quants/dispatch.h has it
    void (*multiply)(const MultiplyArgs& args);
    /// Tiles of 4 bits [k_tiles] times their multipliers [blocks, 32] to weight tiles [k_tiles].
    void (*expand)(const uint8_t* packed, const int8_t* mult, int64_t k_tiles, int64_t block, int8_t* w);
    /// Bytes around 128, 4 n_quads rows of 32 that are `stride` apart, to as many rows of weight tiles from w
    /// on. sums[32] += those of each column.
    void (*interleave)(const uint8_t* bytes, int64_t stride, int64_t n_quads, int8_t* w, int32_t* sums);
    void (*multiply_packed)(const MultiplyPackedArgs& args);  // null: no faster than expand() and multiply()
};

extern const TileKernels kTilesScalar;
extern const TileKernels kTilesAvx2;
extern const TileKernels kTilesAvxVnni;
extern const TileKernels kTilesAvx512;
extern const TileKernels kTilesNeon;

/// The best table for the instruction set of that name (quants/dispatch.h).
const TileKernels& tile_kernels(const char* isa_name);

}  // namespace tessera::npu
