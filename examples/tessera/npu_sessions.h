#pragma once
// The address spaces that a compiled model takes, as text.
#include <string>

#include "src/npu/device.h"
#include "src/npu/device_model.h"

namespace tessera {

/// A line for each session: its bytes, of how many, and for what.
std::string npu_sessions_text(const npu::DeviceModel& model, const npu::HtpDevice& device);

}  // namespace tessera
