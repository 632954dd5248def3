// A description of a device of any bytes: an error, or one whose every field can be written.
#include <cstddef>
#include <cstdint>

#include "src/npu/device.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::npu;
    const auto device = parse_device({reinterpret_cast<const char*>(data), size});
    if (device && device->canonical_text().empty()) __builtin_trap();
    return 0;
}
