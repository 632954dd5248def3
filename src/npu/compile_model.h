#pragma once
// From a recorded program to a model that the device executes.
#include <cstddef>
#include <span>
#include <vector>

#include "src/npu/device.h"
#include "src/npu/device_model.h"
#include "src/npu/partition.h"
#include "src/npu/prepare.h"

namespace tessera::npu {

/// All of it outlives the call.
struct CompileRequest {
    /// The same forward pass for each number of rows, rising, with all rows wanted.
    std::span<const record::Program* const> programs;
    std::span<const DeviceRange> segments;  ///< of each of them, by partition()
    /// How many positions graphs attend to, rising multiples of 32, each at least the rows of a pass. The
    /// last one is the cache's. May be empty where no segment attends.
    std::span<const int64_t> contexts;
    const HtpDevice& device;
    const Ranges& ranges;
    QuantizedMatrices& matrices;
};

struct CompiledModel {
    DeviceModel model;  ///< whose constants are these
    std::vector<std::byte> constants;
    std::vector<DeviceRange> ranges;  ///< its segments: those of the request, some cut in two
};

/// The same request gives the same bytes, with any number of threads. Where not all fits into an address
/// space of the device there are several sessions, each with constants, arena and cache of its own: a segment
/// ends with its session, behind a layer if possible, and its values go by the processor to the next one,
/// which changes no bit. The table of operations is left to the caller. Matrices that `matrices` does not
/// keep are quantized one by one. Errors name the segment and what could not be compiled: see GraphCompiler,
/// encode_values(); OutOfMemory the operations that no session holds.
Result<CompiledModel> compile_model(const CompileRequest& request);

/// What became of the program's operations, as a compiled model has it.
std::vector<DeviceOp> device_ops(const record::Program& program, const Partition& partition);

}  // namespace tessera::npu
