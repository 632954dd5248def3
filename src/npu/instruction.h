#pragma once
// What the three units of the device are told to do: transfers between DDR and VTCM (DMA), widening of
// weights (HVX), products of tiles (HMX). A unit works its instructions off one after the other; units wait
// for each other only where an instruction says so.
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace tessera::npu {

enum class Unit : uint8_t { Dma, Hvx, Hmx };
constexpr int kUnits = 3;
enum class Opcode : uint8_t { Load, Store, Expand, Multiply };

constexpr Unit unit_of(Opcode op) {
    return op == Opcode::Expand ? Unit::Hvx : op == Opcode::Multiply ? Unit::Hmx : Unit::Dma;
}

/// Memory outside: what a program reads and writes.
enum class Region : uint8_t { Weights, Input, Output };
constexpr int kRegions = 3;

/// How many instructions of each unit, from the first on, are done.
using Progress = std::array<uint32_t, kUnits>;

/// `rows` pieces of `row_bytes`, from DDR to VTCM or back.
struct Transfer {
    uint64_t ddr, ddr_stride;
    uint32_t vtcm, vtcm_stride, rows, row_bytes;
    Region region;
};

/// Codes of 4 bits [n_tiles, k_tiles] and multipliers [n_tiles, blocks, 32] to weight tiles [n_tiles,
/// k_tiles].
struct Expand {
    uint32_t packed, mult, weights;
    uint32_t n_tiles, k_tiles, block;
};

/// Sums of the products of activations [row_tiles, planes_in, k_tiles] and weights [n_tiles, k_tiles]. They
/// start at 0 or go on from `sums` [row_tiles, n_tiles], and become outputs [row_tiles, planes_out, n_tiles]
/// by the records [n_tiles, 32] or are put back.
struct Multiply {
    uint32_t act, weights, records, out, sums;
    uint32_t rows, n_tiles, k_tiles;
    uint32_t packet_k_tiles;  ///< one packet of the matrix unit takes at most so many
    int32_t zero_out;
    uint8_t planes_in, planes_out;
    bool first, last;
};

struct Instruction {
    Opcode op = Opcode::Load;
    /// Nobody reads these operands after this one: what a test may overwrite, to find those who do.
    bool frees_operands = false;  ///< all but the activations of Multiply
    bool frees_activations = false;
    Progress waits = {};
    union {
        Transfer transfer = {};
        Expand expand;
        Multiply multiply;
    };
};
static_assert(std::is_trivially_copyable_v<Instruction>);

using Stream = std::vector<Instruction>;

}  // namespace tessera::npu
