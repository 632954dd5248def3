#pragma once
// The sessions (address spaces) of a compiled model, as text.
#include <string>

#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera {

/// A line for each session: its bytes, the limit, and their use.
std::string npu_sessions_text(const npu::DeviceModel& model, const npu::HtpDevice& device);

}  // namespace tessera
