#pragma once
// A compiled model in the emulated device.
#include <memory>
#include <optional>
#include <vector>

#include "src/npu/device_model.h"
#include "src/npu/emulator.h"
#include "src/npu/segment_runner.h"

namespace tessera::npu {

/// What the streams of a session address of the memory of a checked model.
Memory memory_of(const DeviceSession& session, const Memory& all);

class DeviceRun final : public SegmentRunner {
  public:
    /// Whether operands are really brought to VTCM, or used where they are (direct_stream.h): the same bits.
    enum class Copies : uint8_t { Made, LeftOut };

    /// Takes all memory that runs need: arena, cache, VTCM, rows at the edges. The model with its constants
    /// and the pool outlive this; `kernels` are usable here. Errors: those of check_device_model(), no
    /// memory.
    static Result<std::unique_ptr<DeviceRun>> create(const DeviceModel& model, const TileKernels& kernels,
                                                     ThreadPool& pool, Copies copies = Copies::Made);

    /// Bytes of what create() takes with a pool of so many threads.
    struct Needs {
        uint64_t arena = 0, cache = 0, vtcm = 0, scratch = 0;  ///< a Buffer each
        uint64_t streams = 0;                                  ///< on the heap, for copies that are left out
    };
    static Needs needs(const DeviceModel& model, int n_threads, Copies copies);

    int64_t max_rows(size_t segment) const override { return model_->segments[segment].graphs.back().n_tok; }
    /// By the graph with the fewest rows, and of these with the fewest positions, that holds the pass.
    /// Allocates nothing. Numbers that are none count as 0, with one warning.
    void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
             std::span<float* const> outputs) override;

    /// The graph that run() would take; null if none holds the pass.
    const DeviceGraph* graph_of(size_t segment, const Pass& pass) const;

    /// Of all sessions.
    std::span<std::byte> arena() { return {arena_.data(), arena_.size()}; }
    std::span<std::byte> cache() { return {cache_.data(), cache_.size()}; }
    /// Behind the last byte of its session's arena that any transfer has touched.
    uint64_t arena_peak() const { return emulator_.arena_peak(); }

    /// For tests of the waits: from now on runs go in this order, with all copies, with freed operands
    /// overwritten, and allocate.
    void reorder(const Order& order) { order_ = order; }

  private:
    DeviceRun(const DeviceModel& model, Emulator emulator) : model_(&model), emulator_(std::move(emulator)) {}
    void write(const DeviceGraph& graph, const Port& port, const Memory& memory, const float* rows,
               int64_t n_rows);
    void read(const DeviceGraph& graph, const Port& port, const Memory& memory, float* rows, int64_t n_rows);

    const DeviceModel* model_;
    Emulator emulator_;
    Buffer arena_, cache_;
    std::vector<uint16_t> row_;                      // of the widest port
    std::vector<std::vector<DirectStream>> direct_;  // by segment and graph; empty: copies are made
    std::optional<Order> order_;
    bool warned_ = false;  // of numbers that are none
};

}  // namespace tessera::npu
