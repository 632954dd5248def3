#pragma once
// What the three units of the device are told to do: transfers between DDR and VTCM (DMA), operations on
// vectors (HVX), products of tiles (HMX). A unit works its instructions off one after the other; units wait
// for each other only where an instruction says so. An instruction is plain data: fields() hands each operand
// of it with its name to a visitor, for whoever writes, reads or prints streams.
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "src/npu/elementwise.h"
#include "src/npu/norm.h"
#include "src/npu/rope.h"

namespace tessera::npu {

enum class Unit : uint8_t { Dma, Hvx, Hmx };
constexpr int kUnits = 3;
enum class Opcode : uint8_t {
    Load,
    Store,
    Expand,
    Interleave,
    Transpose,
    Norm,
    Rotate,
    Softmax,
    Lookup,
    Add,
    Mul,
    Multiply,
};
constexpr int kOpcodes = 12;

constexpr Unit unit_of(Opcode op) {
    return op <= Opcode::Store ? Unit::Dma : op == Opcode::Multiply ? Unit::Hmx : Unit::Hvx;
}

/// Memory outside: weights, records and tables, read alone; activations; keys and values.
enum class Region : uint8_t { Constants, Arena, Cache };
constexpr int kRegions = 3;

/// How many instructions of each unit, from the first on, are done.
using Progress = std::array<uint32_t, kUnits>;

/// `rows` pieces of `row_bytes`, from DDR to VTCM or back. The pass comes in where positions do: past_stride
/// bytes are skipped for each position before it, and what belongs to rows of it that are padding is left
/// out.
struct Transfer {
    /// What of the transfer goes with the rows of the pass from first_row on.
    enum class Limit : uint8_t { None, Rows, Bytes };

    uint64_t ddr, ddr_stride;
    uint32_t vtcm, vtcm_stride, rows, row_bytes;
    Region region;
    Limit limit;
    uint32_t past_stride, first_row;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("ddr", self.ddr);
        v("ddr_stride", self.ddr_stride);
        v("vtcm", self.vtcm);
        v("vtcm_stride", self.vtcm_stride);
        v("rows", self.rows);
        v("row_bytes", self.row_bytes);
        v("region", self.region);
        v("limit", self.limit);
        v("past_stride", self.past_stride);
        v("first_row", self.first_row);
    }
};

/// Codes of 4 bits [n_tiles, k_tiles] and multipliers [n_tiles, blocks, 32] to weight tiles [n_tiles,
/// k_tiles].
struct Expand {
    uint32_t packed, mult, weights;
    uint32_t n_tiles, k_tiles, block;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("packed", self.packed);
        v("mult", self.mult);
        v("weights", self.weights);
        v("n_tiles", self.n_tiles);
        v("k_tiles", self.k_tiles);
        v("block", self.block);
    }
};

/// Bytes around 128 [n_k, stride], of which n_n of a row count, to weight tiles [n_tiles, k_tiles], in which
/// they begin at the input k_first; all else is 0. The records of the outputs get `factor`, and for a bias
/// `centre` times the sum of an output's weights, to which those of further inputs are added; with `hmx` as
/// HmxRequant.
struct Interleave {
    uint32_t bytes, weights, records;
    uint32_t stride, n_k, n_n, k_first, n_tiles, k_tiles;
    int32_t centre;
    Multiplier factor;
    bool first, hmx;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("bytes", self.bytes);
        v("weights", self.weights);
        v("records", self.records);
        v("stride", self.stride);
        v("n_k", self.n_k);
        v("n_n", self.n_n);
        v("k_first", self.k_first);
        v("n_tiles", self.n_tiles);
        v("k_tiles", self.k_tiles);
        v("centre", self.centre);
        v("factor", self.factor);
        v("first", self.first);
        v("hmx", self.hmx);
    }
};

/// Bytes [channel_tiles, rows, 32] to [channel_tiles * 32, 64].
struct Transpose {
    uint32_t x, y;
    uint32_t rows, channel_tiles;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("x", self.x);
        v("y", self.y);
        v("rows", self.rows);
        v("channel_tiles", self.channel_tiles);
    }
};

// Activations of vector instructions are [planes, channel tiles, rows, 32], planes by the encoding: rows of a
// row tile, dim values long.

/// Pieces of n values of each row, by weights [n] of 16 bits.
struct NormRows {
    uint32_t x, y, gamma;
    uint32_t rows, dim, n;
    NormFactors factors;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("x", self.x);
        v("y", self.y);
        v("gamma", self.gamma);
        v("rows", self.rows);
        v("dim", self.dim);
        v("n", self.n);
        v("factors.x", self.factors.x);
        v("factors.y", self.factors.y);
        v("factors.eps", self.factors.eps);
        v("factors.zero_gamma", self.factors.zero_gamma);
        v("factors.to_y", self.factors.to_y);
    }
};

/// Heads of each row, by cosines and sines [rows, n_rot / 2, 2] of 16 bits.
struct RotateRows {
    uint32_t x, y, cos_sin;
    uint32_t rows, dim;
    RopeFactors factors;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("x", self.x);
        v("y", self.y);
        v("cos_sin", self.cos_sin);
        v("rows", self.rows);
        v("dim", self.dim);
        v("factors.x", self.factors.x);
        v("factors.y", self.factors.y);
        v("factors.n_rot", self.factors.n_rot);
        v("factors.head_dim", self.factors.head_dim);
        v("factors.pairs", self.factors.pairs);
        v("factors.rotated", self.factors.rotated);
        v("factors.kept", self.factors.kept);
    }
};

/// Probabilities of the positions that a row sees by itself and the pass, by ExpTables. The first row is that
/// of the pass' row first_row.
struct SoftmaxRows {
    uint32_t x, y, tables;
    uint32_t rows, dim, first_row, planes_x;
    uint32_t window;  ///< 0: all positions up to its own

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("x", self.x);
        v("y", self.y);
        v("tables", self.tables);
        v("rows", self.rows);
        v("dim", self.dim);
        v("first_row", self.first_row);
        v("planes_x", self.planes_x);
        v("window", self.window);
    }
};

/// n values by their codes in a table of 16 bits, of which the entries from `begin` up to `end` are at hand:
/// values with other codes are left as they are.
struct LookupValues {
    uint32_t x, y, table;
    uint32_t n, begin, end;
    uint32_t planes_x, planes_y;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("x", self.x);
        v("y", self.y);
        v("table", self.table);
        v("n", self.n);
        v("begin", self.begin);
        v("end", self.end);
        v("planes_x", self.planes_x);
        v("planes_y", self.planes_y);
    }
};

/// n sums.
struct AddValues {
    uint32_t a, b, y, n;
    npu::Add::Factors factors;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("a", self.a);
        v("b", self.b);
        v("y", self.y);
        v("n", self.n);
        v("factors.a", self.factors.a);
        v("factors.b", self.factors.b);
        v("factors.y", self.factors.y);
        v("factors.mult_a", self.factors.mult_a);
        v("factors.mult_b", self.factors.mult_b);
        v("factors.shift", self.factors.shift);
    }
};

/// n products.
struct MulValues {
    uint32_t a, b, y, n;
    npu::Mul::Factors factors;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("a", self.a);
        v("b", self.b);
        v("y", self.y);
        v("n", self.n);
        v("factors.a", self.factors.a);
        v("factors.b", self.factors.b);
        v("factors.y", self.factors.y);
        v("factors.product", self.factors.product);
    }
};

/// Sums of the products of activations [row_tiles, planes_in, k_tiles] and weights [n_tiles, k_tiles]. They
/// start at 0 or go on from `sums` [row_tiles, n_tiles], and become outputs [row_tiles, planes_out, n_tiles]
/// by the records [n_tiles, 32], with `hmx` in that mode, or are put back.
struct Multiply {
    uint32_t act, weights, records, out, sums;
    uint32_t rows, n_tiles, k_tiles;
    uint32_t packet_k_tiles;  ///< one packet of the matrix unit takes at most so many
    int32_t zero_out;
    uint8_t planes_in, planes_out;
    bool first, last, hmx;

    template <class Self, class Visitor>
    static void fields(Self& self, Visitor&& v) {
        v("act", self.act);
        v("weights", self.weights);
        v("records", self.records);
        v("out", self.out);
        v("sums", self.sums);
        v("rows", self.rows);
        v("n_tiles", self.n_tiles);
        v("k_tiles", self.k_tiles);
        v("packet_k_tiles", self.packet_k_tiles);
        v("zero_out", self.zero_out);
        v("planes_in", self.planes_in);
        v("planes_out", self.planes_out);
        v("first", self.first);
        v("last", self.last);
        v("hmx", self.hmx);
    }
};

struct Instruction {
    /// A load of nothing.
    Instruction() {}

    Opcode op = Opcode::Load;
    /// Nobody reads these operands after this one: what a test may overwrite, to find those who do.
    bool frees_operands = false;  ///< all but the activations of Multiply
    bool frees_activations = false;
    Progress waits = {};
    union {
        Transfer transfer = {};
        Expand expand;
        Interleave interleave;
        Transpose transpose;
        NormRows norm;
        RotateRows rotate;
        SoftmaxRows softmax;
        LookupValues lookup;
        AddValues add;
        MulValues mul;
        Multiply multiply;
    };

    /// fn(the operands, as the struct of the operation). `self` is an Instruction, const or not.
    template <class Self, class Fn>
    static decltype(auto) visit(Self& self, Fn&& fn) {
        switch (self.op) {
            case Opcode::Expand:
                return fn(self.expand);
            case Opcode::Interleave:
                return fn(self.interleave);
            case Opcode::Transpose:
                return fn(self.transpose);
            case Opcode::Norm:
                return fn(self.norm);
            case Opcode::Rotate:
                return fn(self.rotate);
            case Opcode::Softmax:
                return fn(self.softmax);
            case Opcode::Lookup:
                return fn(self.lookup);
            case Opcode::Add:
                return fn(self.add);
            case Opcode::Mul:
                return fn(self.mul);
            case Opcode::Multiply:
                return fn(self.multiply);
            case Opcode::Load:
            case Opcode::Store:
                break;
        }
        return fn(self.transfer);
    }
};
static_assert(std::is_trivially_copyable_v<Instruction>);

using Stream = std::vector<Instruction>;

}  // namespace tessera::npu
