#pragma once
// The NPU options of the commands that compute.
#include <string>

#include "examples/tessera/options.h"
#include "include/tessera.h"

namespace tessera {

/// The last line of every report on an emulated device.
inline constexpr const char* kEmulatedNote =
    "Emulated: the results are those of the device; its times are predictions.\n";

struct NpuFlags {
    std::string file, device, ranges, recipe = "w4a16", offload;
    int64_t n_layers = 0;
    std::string phase = "both";
    bool strict = false, fast = false;

    /// Declares them in a group of their own, with the check that they fit together.
    void declare(Options& options);
    bool is_on() const { return !file.empty() || !device.empty(); }
    /// Notes on stderr that the NPU is emulated.
    static void tell();
    /// For the C interface, as views of this object; null without NPU flags. Calls tell().
    const tsr_npu_options* c_options(tsr_npu_options& to) const;
};

}  // namespace tessera
