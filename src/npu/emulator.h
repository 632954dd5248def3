#pragma once
// Executes streams: bytes move between DDR and a VTCM of the device's size, and tiles are multiplied from
// VTCM; or, with direct_stream.h, without most of the copies and with the same result. The result follows the
// arithmetic stated in docs/design/npu.md; the time taken says nothing about the device.
#include <array>
#include <cstddef>
#include <span>

#include "common/arena.h"
#include "common/threads.h"
#include "src/npu/direct_stream.h"
#include "src/npu/stream.h"
#include "src/npu/vector_unit.h"

namespace tessera::npu {

/// The interleaving of the units. All orders that respect the waits give the same bits, unless a wait is
/// missing.
struct Order {
    enum class Kind : uint8_t {
        Written,   ///< in the order of the stream
        Priority,  ///< always the first unit of `units` that is not waiting: with DMA first transfers happen
                   ///< as early as they may, with DMA last as late as they may
        Random,    ///< a random unit that is not waiting, by `seed`
    };
    Kind kind = Kind::Written;
    std::array<Unit, kUnits> units = {Unit::Dma, Unit::Hvx, Unit::Hmx};
    uint64_t seed = 0;
};

class Emulator {
  public:
    /// Allocates VTCM, filled with a pattern. `kernels` must be usable on this machine. The pool's threads
    /// share the tiles of an instruction, which changes no bit; the pool must outlive this object.
    static Result<Emulator> create(int64_t vtcm_bytes, const TileKernels& kernels, ThreadPool& pool);

    /// Runs, in written order, a stream that check_stream() has accepted for this VTCM, memory and pass.
    /// Allocates nothing.
    void run(const Stream& stream, const Memory& memory, const Pass& pass = {});
    /// The same for the result of direct_stream().
    void run(const DirectStream& stream, const Memory& memory, const Pass& pass = {});

    /// The same in another order, overwriting all operands that an instruction frees: for tests of the waits.
    /// A deadlock is Malformed.
    Result<void> run_reordered(const Stream& stream, const Memory& memory, const Order& order,
                               const Pass& pass = {});

    /// One past the last arena byte that any transfer has touched.
    uint64_t arena_peak() const { return arena_peak_; }

  private:
    void execute(const Instruction& instruction, const Memory& memory);
    void transfer(const Instruction& instruction, const Memory& memory);
    void multiply(const Multiply& m);
    void multiply_tile(const Multiply& m, int64_t row_tile, int64_t n_tile);
    void multiply_weights(const Multiply& m, int64_t n_tile, MultiplyArgs args);
    void convert(const Multiply& m, int64_t row_tile, int64_t n_tile, int64_t rows, const int64_t* sums);
    void free_operands(const Instruction& instruction);

    Buffer vtcm_;
    VectorUnit vector_;
    Pass pass_;
    Places places_;  // of the current instruction
    const DirectInstruction* packed_ =
        nullptr;  // the current instruction, if it multiplies by packed weights
    uint64_t arena_peak_ = 0;
    const TileKernels* kernels_ = nullptr;
    ThreadPool* pool_ = nullptr;
};

}  // namespace tessera::npu
