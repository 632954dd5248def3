#pragma once
// Compiles a recorded program to a model that the device executes.
#include <cstddef>
#include <span>
#include <vector>

#include "src/npu/device.h"
#include "src/npu/device_model.h"
#include "src/npu/partition.h"
#include "src/npu/prepare.h"

namespace tessera::npu {

/// Inputs of compile_model(); all must outlive the call.
struct CompileRequest {
    /// The same forward pass recorded for several batch sizes, in rising order, with logits for all rows.
    std::span<const record::Program* const> programs;
    std::span<const DeviceRange> segments;  ///< the same for all programs, from partition()
    /// Context sizes of the graphs, increasing multiples of 32, each at least the batch size. The last one is
    /// the size of the cache. May be empty if no segment has attention.
    std::span<const int64_t> contexts;
    const HtpDevice& device;
    const Ranges& ranges;
    QuantizedMatrices& matrices;
};

struct CompiledModel {
    DeviceModel model;  ///< refers to `constants`
    std::vector<std::byte> constants;
    std::vector<DeviceRange> ranges;  ///< its segments: those of the request, some split in two
};

/// The same request gives the same bytes for any number of threads. A model that exceeds the device's address
/// space is split into sessions, each with its own constants, arena and cache. A session boundary splits a
/// segment, behind a layer if possible; its values pass through the CPU to the next session, which changes no
/// bit. The table of operations is left to the caller. Matrices that `matrices` does not hold are quantized
/// one at a time. Errors name the segment and the operation that cannot be compiled (see GraphCompiler,
/// encode_values()); OutOfMemory names operations that fit into no session.
Result<CompiledModel> compile_model(const CompileRequest& request);

/// The assignment of the program's operations to CPU and device, as a compiled model stores it.
std::vector<DeviceOp> device_ops(const record::Program& program, const Partition& partition);

}  // namespace tessera::npu
