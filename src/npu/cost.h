#pragma once
// How long instructions would take on the device: a model, made of the numbers in its description. Nothing of
// it has any influence on what is computed.
#include <span>
#include <string>
#include <vector>

#include "src/npu/device.h"
#include "src/npu/instruction.h"

namespace tessera::npu {

/// Descriptors that one transfer takes: one of two dimensions if its fields are large enough, else one a row.
int64_t n_descriptors(const Transfer& transfer, const HtpDevice& device);

/// Bytes that a transfer moves, or that an instruction of the vector unit reads and writes.
int64_t bytes_moved(const Instruction& instruction);

/// Products of 8-bit numbers that the matrix unit does, whole tiles of 64 rows: a few rows cost as much.
int64_t tile_products(const Multiply& multiply);

/// Microseconds for which the instruction keeps its unit busy, the latency of a transfer not included. Of the
/// vector unit's, a softmax costs its scores at attention_elements_per_s, the others what they read and
/// write.
double busy_us(const Instruction& instruction, const HtpDevice& device);

struct Interval {
    double begin_us, end_us;
};

struct Timeline {
    std::vector<Interval> intervals;          ///< one for each instruction
    std::array<double, kUnits> unit_us = {};  ///< busy
    double total_us = 0;
    int64_t dma_bytes = 0, n_descriptors = 0;

    /// The unit that is busy for longest: what the time is bound by.
    Unit bound() const;
};

/// Runs the stream's instructions as its waits allow: each when its unit is free and what it waits for is
/// done.
Timeline predict(const Stream& stream, const HtpDevice& device);

}  // namespace tessera::npu
