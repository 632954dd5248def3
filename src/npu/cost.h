#pragma once
// Predicts how long instructions take on the device, from the numbers in its description. The predictions do
// not influence results.
#include <span>
#include <string>
#include <vector>

#include "src/npu/device.h"
#include "src/npu/instruction.h"

namespace tessera::npu {

/// DMA descriptors of one transfer: a single two-dimensional one if its fields are large enough, else one per
/// row.
int64_t n_descriptors(const Transfer& transfer, const HtpDevice& device);

/// Bytes that a transfer moves, or that a vector instruction reads and writes.
int64_t bytes_moved(const Instruction& instruction);

/// 8-bit multiplications of the matrix unit. Tiles of 64 rows count as a whole: fewer rows cost the same.
int64_t tile_products(const Multiply& multiply);

/// Microseconds for which the instruction occupies its unit, excluding the latency of a transfer. On the
/// vector unit a softmax costs its scores at attention_elements_per_s; other instructions cost the bytes they
/// read and write.
double busy_us(const Instruction& instruction, const HtpDevice& device);

struct Interval {
    double begin_us, end_us;
};

struct Timeline {
    std::vector<Interval> intervals;          ///< one for each instruction
    std::array<double, kUnits> unit_us = {};  ///< busy
    double total_us = 0;
    int64_t dma_bytes = 0, n_descriptors = 0;

    /// The bottleneck: the unit that is busy for the longest time.
    Unit bound() const;
};

/// Simulates the stream: an instruction starts when its unit is free and the instructions it waits for are
/// done.
Timeline predict(const Stream& stream, const HtpDevice& device);

}  // namespace tessera::npu
