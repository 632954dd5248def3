#pragma once
// The files of src/npu/devices in the program; the array is written by CMake.
#include <span>
#include <string_view>

namespace tessera::npu {

struct ShippedDevice {
    std::string_view name, json;
};

std::span<const ShippedDevice> shipped_files();

}  // namespace tessera::npu
