#pragma once
// The options of the commands that compute, for those of them which have an NPU do a part of it.
#include <string>

#include "examples/tessera/options.h"
#include "include/tessera.h"

namespace tessera {

/// The last line of every report on an emulated device.
inline constexpr const char* kEmulatedNote =
    "Emulated: the functional result is real, device times are a model.\n";

struct NpuFlags {
    std::string file, device, ranges, recipe = "w4a16", offload;
    int64_t n_layers = 0;
    std::string phase = "both";
    bool strict = false, fast = false;

    /// All under a title of their own, and the check that they go together.
    void declare(Options& options);
    bool is_on() const { return !file.empty() || !device.empty(); }
    /// Tells on stderr that it is emulated.
    static void tell();
    /// For the C interface, as views of this; null where the NPU was not asked for, else with tell().
    const tsr_npu_options* c_options(tsr_npu_options& to) const;
};

}  // namespace tessera
