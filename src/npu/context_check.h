#pragma once
// What has to hold of a compiled model before anything of it runs.
#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

/// Refuses a model whose parts contradict each other, or of which anything lies outside of the memory it
/// names: ports, caches, and every instruction (check_stream). It is executed without further checks.
/// Malformed, naming the part.
Result<void> check_device_model(const DeviceModel& model, const HtpDevice& device);

}  // namespace tessera::npu
