#pragma once
// Executes streams: bytes move between DDR and a VTCM of the device's size, tiles are multiplied from there.
// Or without most of that (direct_stream.h), with the same result.
// What comes out is the device's result by our stated arithmetic (docs/design/npu.md); how long it took is no
// measure of it.
#include <array>
#include <cstddef>
#include <span>

#include "common/arena.h"
#include "common/threads.h"
#include "src/npu/direct_stream.h"
#include "src/npu/stream.h"
#include "src/npu/vector_unit.h"

namespace tessera::npu {

/// In which order the units get ahead of each other. All orders that respect the waits give the same bits, if
/// no wait is missing.
struct Order {
    enum class Kind : uint8_t {
        Written,   ///< as written
        Priority,  ///< always the first unit of `units` that can go on: with DMA first transfers happen as
                   ///< early as they may, with DMA last as late as they may
        Random,    ///< any unit that can go on, by `seed`
    };
    Kind kind = Kind::Written;
    std::array<Unit, kUnits> units = {Unit::Dma, Unit::Hvx, Unit::Hmx};
    uint64_t seed = 0;
};

class Emulator {
  public:
    /// Allocates VTCM, filled with a pattern. `kernels` must be usable on this machine. The pool's threads
    /// share the tiles of an instruction, which changes no bit; it must outlive this object.
    static Result<Emulator> create(int64_t vtcm_bytes, const TileKernels& kernels, ThreadPool& pool);

    /// Runs a stream that check_stream() has passed for this VTCM, this memory and passes like this one, as
    /// written. Allocates nothing.
    void run(const Stream& stream, const Memory& memory, const Pass& pass = {});
    /// The same of what direct_stream() has made of such a stream.
    void run(const DirectStream& stream, const Memory& memory, const Pass& pass = {});

    /// The same in another order, and with everything overwritten that an instruction frees: for tests of the
    /// waits. Deadlock is Malformed.
    Result<void> run_reordered(const Stream& stream, const Memory& memory, const Order& order,
                               const Pass& pass = {});

    /// Behind the last byte of the arena that any transfer has touched yet.
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
    Places places_;                              // of the instruction at hand
    const DirectInstruction* packed_ = nullptr;  // it, if it multiplies by weights that are packed
    uint64_t arena_peak_ = 0;
    const TileKernels* kernels_ = nullptr;
    ThreadPool* pool_ = nullptr;
};

}  // namespace tessera::npu
