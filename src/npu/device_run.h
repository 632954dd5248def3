#pragma once
// Runs a compiled model on the emulated device.
#include <memory>
#include <optional>
#include <vector>

#include "src/npu/device_model.h"
#include "src/npu/emulator.h"
#include "src/npu/segment_runner.h"

namespace tessera::npu {

/// The part of a checked model's memory that the streams of a session address.
Memory memory_of(const DeviceSession& session, const Memory& all);

class DeviceRun final : public SegmentRunner {
  public:
    /// Made: operands are copied to VTCM as on the device. LeftOut: they are used in place (direct_stream.h).
    /// Same bits.
    enum class Copies : uint8_t { Made, LeftOut };

    /// Allocates all memory of a run: arena, cache, VTCM and rows at segment boundaries. The model with its
    /// constants and the pool must outlive this object; `kernels` must be usable on this machine. Errors:
    /// those of check_device_model(), and OutOfMemory.
    static Result<std::unique_ptr<DeviceRun>> create(const DeviceModel& model, const TileKernels& kernels,
                                                     ThreadPool& pool, Copies copies = Copies::Made);

    /// Bytes that create() allocates with a pool of n_threads threads.
    struct Needs {
        uint64_t arena = 0, cache = 0, vtcm = 0, scratch = 0;  ///< one Buffer each
        uint64_t streams = 0;                                  ///< heap memory for Copies::LeftOut
    };
    static Needs needs(const DeviceModel& model, int n_threads, Copies copies);

    int64_t max_rows(size_t segment) const override { return model_->segments[segment].graphs.back().n_tok; }
    /// Runs the graph with the fewest rows, then the fewest positions, that holds the pass. Allocates
    /// nothing. NaNs count as 0 and are reported once as a warning.
    void run(size_t segment, const Pass& pass, std::span<const float* const> inputs,
             std::span<float* const> outputs) override;

    /// The graph that run() uses; null if none holds the pass.
    const DeviceGraph* graph_of(size_t segment, const Pass& pass) const;

    /// Memory of all sessions.
    std::span<std::byte> arena() { return {arena_.data(), arena_.size()}; }
    std::span<std::byte> cache() { return {cache_.data(), cache_.size()}; }
    /// One past the last arena byte that any transfer has touched.
    uint64_t arena_peak() const { return emulator_.arena_peak(); }

    /// For tests of the waits: later runs execute in this order, with all copies and with freed operands
    /// overwritten; they allocate.
    void reorder(const Order& order) { order_ = order; }

  private:
    DeviceRun(const DeviceModel& model, Emulator emulator) : model_(&model), emulator_(std::move(emulator)) {}
    void write(const DeviceGraph& graph, const Port& port, const Memory& memory, const float* rows,
               int64_t n_rows);
    void read(const DeviceGraph& graph, const Port& port, const Memory& memory, float* rows, int64_t n_rows);

    const DeviceModel* model_;
    Emulator emulator_;
    Buffer arena_, cache_;
    std::vector<uint16_t> row_;                      // as wide as the widest port
    std::vector<std::vector<DirectStream>> direct_;  // by segment and graph; empty for Copies::Made
    std::optional<Order> order_;
    bool warned_ = false;  // about NaNs
};

}  // namespace tessera::npu
