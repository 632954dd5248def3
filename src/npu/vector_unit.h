#pragma once
// The vector unit in software: between the bytes of its operands and the definitions of each operation
// (norm.h, rope.h, attention.h, elementwise.h), which are the only arithmetic.
#include "common/arena.h"
#include "common/threads.h"
#include "src/npu/graph.h"
#include "src/npu/instruction.h"
#include "src/npu/places.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

class VectorUnit {
  public:
    /// Takes all memory that instructions need. The tables are usable here; the pool outlives this.
    static Result<VectorUnit> create(const TileKernels& kernels, ThreadPool& pool);
    /// Of that memory, with a pool of so many threads.
    static size_t scratch_bytes(int n_threads);

    VectorUnit() = default;

    /// An instruction that check_stream() has passed, on operands at these places.
    void execute(const Instruction& instruction, const Places& places, const Pass& pass);

  private:
    void run(const Expand& e);
    void run(const Interleave& i);
    void run(const Transpose& t);
    void run(const NormRows& n);
    void run(const RotateRows& r);
    void run(const SoftmaxRows& s);
    void run(const LookupValues& l);
    void run(const AddValues& p) { combine<npu::Add>(p, p.factors.a, p.factors.b, p.factors.y); }
    void run(const MulValues& p) { combine<npu::Mul>(p, p.factors.a, p.factors.b, p.factors.y); }
    void run(const Transfer&) {}
    void run(const Multiply&) {}
    template <class Op, class Pair>
    void combine(const Pair& p, const Encoding& a, const Encoding& b, const Encoding& y);
    /// fn(codes of a row, codes to fill, the row), for rows of activations at x and y.
    template <class Fn>
    void each_row(uint32_t x, const Encoding& of_x, uint32_t y, const Encoding& of_y, uint32_t rows,
                  uint32_t dim, const Fn& fn);

    template <class T>
    T* at(uint32_t offset) const {
        return reinterpret_cast<T*>(places_.find(offset).at);
    }

    const TileKernels* kernels_ = nullptr;
    ThreadPool* pool_ = nullptr;
    Buffer scratch_;  // two rows for each thread
    Places places_;
    Pass pass_;
};

}  // namespace tessera::npu
