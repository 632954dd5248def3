#pragma once
// Instructions of the device's three units: transfers between DDR and VTCM (DMA), vector operations (HVX) and
// tile products (HMX). Each unit executes its instructions in order; units wait for each other only where an
// instruction says so. An instruction is plain data: fields() passes each operand with its name to a visitor
// that writes, reads or prints it.
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

/// Regions of DDR: constants (weights, records and tables; read-only), arena (activations), cache (keys and
/// values).
enum class Region : uint8_t { Constants, Arena, Cache };
constexpr int kRegions = 3;

/// Number of completed instructions of each unit.
using Progress = std::array<uint32_t, kUnits>;

/// Copies `rows` pieces of `row_bytes` from DDR to VTCM or back. Offsets may depend on the pass: past_stride
/// bytes are skipped for each position before it, and its padding rows are not copied.
struct Transfer {
    /// The part of the transfer that depends on the rows of the pass from first_row on.
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

/// Expands 4-bit codes [n_tiles, k_tiles] and multipliers [n_tiles, blocks, 32] to weight tiles [n_tiles,
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

/// Converts bytes with zero 128 [n_k, stride], n_n of each row, to weight tiles [n_tiles, k_tiles], starting
/// at input k_first; the rest is 0. The records of the outputs get `factor`, and as bias `centre` times the
/// sum of an output's weights; sums of further inputs are added to it. With `hmx` the records are HmxRequant.
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

/// Transposes bytes [channel_tiles, rows, 32] to [channel_tiles * 32, 64].
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

// Activations of vector instructions are [planes, channel tiles, rows, 32], with the number of planes given
// by the encoding; each row of a row tile has dim values.

/// RMS norm of parts of n values of each row, with 16-bit weights [n].
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

/// RoPE of the heads of each row, with 16-bit cosines and sines [rows, n_rot / 2, 2].
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

/// Softmax over the positions visible to each row, with ExpTables. The first row is row first_row of the
/// pass.
struct SoftmaxRows {
    uint32_t x, y, tables;
    uint32_t rows, dim, first_row, planes_x;
    uint32_t window;  ///< 0: all positions up to the row's own

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

/// Table lookup of n values by their codes in a table of 16-bit entries. Only the entries [begin, end) are in
/// VTCM: values with other codes stay unchanged.
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

/// y = a + b for n values.
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

/// y = a * b for n values.
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

/// Product of activations [row_tiles, planes_in, k_tiles] and weights [n_tiles, k_tiles]. The sums start at 0
/// or continue `sums` [row_tiles, n_tiles]; they are converted to outputs [row_tiles, planes_out, n_tiles] by
/// the records [n_tiles, 32] (in Hmx mode with `hmx`), or stored back.
struct Multiply {
    uint32_t act, weights, records, out, sums;
    uint32_t rows, n_tiles, k_tiles;
    uint32_t packet_k_tiles;  ///< at most this many in one packet of the matrix unit
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
    /// An empty load.
    Instruction() {}

    Opcode op = Opcode::Load;
    /// No later instruction reads these operands. Tests overwrite them to find one that does.
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

    /// Calls fn with the operands as the struct of the operation. `self` is an Instruction, const or not.
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
