#pragma once
// Validation of a compiled model before it runs.
#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

/// Checks that a model can be executed within its own memory: sessions, ports, order of graphs, and every
/// instruction (check_stream) for every pass of its graph. An accepted model is executed without further
/// checks. Malformed, naming the part.
Result<void> check_device_model(const DeviceModel& model);

/// Also checks that the model's descriptions are consistent (names, operations, caches, inputs and outputs of
/// segments), that it was compiled for this device, and that sessions fit its address space.
Result<void> check_described_model(const DeviceModel& model, const HtpDevice& device);

}  // namespace tessera::npu
