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
};

/// The same request gives the same bytes. The table of operations and the digest of the ranges are left to
/// the caller. Errors name the segment and what could not be compiled: see GraphCompiler, encode_values().
Result<CompiledModel> compile_model(const CompileRequest& request);

}  // namespace tessera::npu
