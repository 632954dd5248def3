#pragma once
// Instructions of the vector unit's operations. Rows or values are processed in pieces that fit into VTCM,
// with double buffering: the next piece is loaded while the current one is computed.
#include "src/npu/device.h"
#include "src/npu/layout.h"
#include "src/npu/stream.h"
#include "src/npu/vtcm.h"

namespace tessera::npu {

/// A tensor in the arena.
struct ActTensor {
    uint64_t at = 0;
    ActLayout layout;
};

/// Appends the instructions of one node. The caller gives the instruction's factors; offsets and sizes are
/// filled in. Each function returns the end of the last VTCM buffer in bytes; OutOfMemory if not even one row
/// fits.
class VectorStream {
  public:
    VectorStream(const HtpDevice& device, StreamBuilder& builder) : device_(device), builder_(builder) {}

    /// weights [n] at `gamma` in the constants.
    Result<int64_t> norm(const ActTensor& x, const ActTensor& y, const NormRows& node, uint64_t gamma);
    /// cosines and sines [n_ctx, n_rot] of 16 bits at `table` in the constants.
    Result<int64_t> rotate(const ActTensor& x, const ActTensor& y, const RotateRows& node, uint64_t table);
    Result<int64_t> softmax(const ActTensor& x, const ActTensor& y, const SoftmaxRows& node, uint64_t tables);
    /// 16-bit entries [n_entries] at `table` in the constants, processed in pieces if they do not fit into
    /// VTCM.
    Result<int64_t> lookup(const ActTensor& x, const ActTensor& y, uint64_t table, int64_t n_entries);
    Result<int64_t> add(const ActTensor& a, const ActTensor& b, const ActTensor& y, const AddValues& node);
    Result<int64_t> mul(const ActTensor& a, const ActTensor& b, const ActTensor& y, const MulValues& node);

    /// The offset of one layer's cache and the range of its positions.
    struct CachePlace {
        uint64_t k = 0, v = 0;
        int64_t n_head = 0, head_dim = 0, n_ctx = 0;
    };
    Result<int64_t> append(const ActTensor& k, const ActTensor& v, const CachePlace& cache);

  private:
    /// Rows within a row tile.
    struct Piece {
        int64_t row_tile, first, rows;
    };
    template <class Fn>
    Result<int64_t> by_rows(const ActTensor& x, const ActTensor& y, int64_t table_bytes, int64_t bytes_of_row,
                            const Fn& fn);
    template <class Pair>
    Result<int64_t> by_values(Opcode op, const ActTensor& a, const ActTensor& b, const ActTensor& y,
                              const Pair& node, Pair Instruction::*member);
    template <class Fn>
    Result<int64_t> append_part(const ActTensor& x, const CachePlace& cache, int64_t bytes_per_value,
                                const Fn& fn);

    void move_rows(Opcode op, const ActTensor& tensor, const Piece& piece, uint32_t vtcm);
    /// Copies bytes from `first` on of each plane of a row tile.
    void move_values(Opcode op, const ActTensor& tensor, int64_t row_tile, int64_t first, int64_t n,
                     uint32_t vtcm);
    void load_constants(uint64_t at, int64_t n_bytes, uint32_t vtcm);
    void move(Opcode op, const Transfer& transfer);

    const HtpDevice& device_;
    StreamBuilder& builder_;
};

}  // namespace tessera::npu
