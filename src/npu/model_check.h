#pragma once
// What has to hold of a compiled model before anything of it runs.
#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera::npu {

/// Refuses a model that could not be executed in its own memory: sessions, ports, graphs out of order, and
/// every instruction (check_stream) in any pass that its graph is for. What passes is executed without
/// further checks. Malformed, naming the part.
Result<void> check_device_model(const DeviceModel& model);

/// The same, and refuses a model whose descriptions contradict each other: names, operations, caches, what
/// segments read and write; a device that is not this one, and sessions that exceed its address space.
Result<void> check_described_model(const DeviceModel& model, const HtpDevice& device);

}  // namespace tessera::npu
