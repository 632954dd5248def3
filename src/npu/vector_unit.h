#pragma once
// The vector unit in software: decodes operands and applies the reference definition of each operation
// (norm.h, rope.h, attention.h, elementwise.h), which contain all arithmetic.
#include "common/arena.h"
#include "common/threads.h"
#include "src/npu/graph.h"
#include "src/npu/instruction.h"
#include "src/npu/places.h"
#include "src/npu/tile_kernels.h"

namespace tessera::npu {

class VectorUnit {
  public:
    /// Allocates all scratch memory. `kernels` must be usable on this machine; the pool must outlive this
    /// object.
    static Result<VectorUnit> create(const TileKernels& kernels, ThreadPool& pool);
    /// Size of the scratch memory with n_threads threads.
    static size_t scratch_bytes(int n_threads);

    VectorUnit() = default;

    /// Executes an instruction that check_stream() has accepted, on operands at these places.
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
    /// Calls fn(input codes, output codes, row) for each row of activations at x and y.
    template <class Fn>
    void each_row(uint32_t x, const Encoding& of_x, uint32_t y, const Encoding& of_y, uint32_t rows,
                  uint32_t dim, const Fn& fn);

    template <class T>
    T* at(uint32_t offset) const {
        return reinterpret_cast<T*>(places_.find(offset).at);
    }

    const TileKernels* kernels_ = nullptr;
    ThreadPool* pool_ = nullptr;
    Buffer scratch_;  // two rows per thread
    Places places_;
    Pass pass_;
};

}  // namespace tessera::npu
