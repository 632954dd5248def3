// --npu, --npu-device and related options. src/engine/npu_offload.cpp prepares the model.
#include "examples/tessera/npu_flags.h"

#include "examples/tessera/console.h"
#include "src/engine/npu_phase.h"

namespace tessera {

void NpuFlags::declare(Options& options) {
    options.group("NPU");
    options.text("--npu", "FILE", file, "Run the operations in this compiled file on an emulated NPU.");
    options.text("--npu-device", "NAME|FILE", device,
                 "Run all supported operations on this emulated NPU (tessera npu devices).");
    options.text("--npu-ranges", "FILE", ranges, "The activation ranges, from tessera npu calibrate.");
    options.text("--npu-recipe", "NAME|FILE", recipe,
                 "How weights and activations are quantized. (default: w4a16)");
    options.integer("--npu-layers", n_layers, 0, 1 << 20,
                    "Offload the first N layers only; 0: all layers and the output head.");
    options.text("--offload", "LIST", offload,
                 "Offload these operations only, such as blk.0-15.ffn,blk.*.attn,output.");
    options.flag("--npu-strict", strict, "Fail if any of these must stay on the CPU.");
    options.flag("--npu-fast", fast, "Skip the copies through the NPU's memory; the bits are the same.");
    options.text("--npu-phase", "WHICH", phase,
                 "Phases to offload: prefill, decode, both, auto. (default: both)");
    options.check([this, options]() -> Result<void> {
        if (!device.empty() && ranges.empty())
            return fail(ErrorCode::InvalidArgument, "--npu-device needs --npu-ranges FILE");
        if (!file.empty() && !device.empty())
            return fail(ErrorCode::InvalidArgument, "--npu and --npu-device exclude each other");
        for (const char* name : {"--npu-ranges", "--npu-recipe", "--npu-layers", "--offload"})
            if (device.empty() && options.given(name))
                return fail(ErrorCode::InvalidArgument, "%s needs --npu-device", name);
        if (strict && !is_on())
            return fail(ErrorCode::InvalidArgument, "--npu-strict needs --npu or --npu-device");
        for (const char* name : {"--npu-fast", "--npu-phase"})
            if (!is_on() && options.given(name))
                return fail(ErrorCode::InvalidArgument, "%s needs --npu or --npu-device", name);
        if (auto known = engine::npu_phase_from_name(phase); !known)
            return fail_in("--npu-phase", std::move(known.error()));
        if (!offload.empty() && n_layers > 0)
            return fail(ErrorCode::InvalidArgument, "--npu-layers and --offload exclude each other");
        if (n_layers > 0) offload = "blk.0-" + std::to_string(n_layers - 1);
        return {};
    });
}

void NpuFlags::tell() {
    console::note("note: the NPU is emulated; results are those of the device, speed is not");
}

const tsr_npu_options* NpuFlags::c_options(tsr_npu_options& to) const {
    if (!is_on()) return nullptr;
    tell();
    to = {};
    to.size = sizeof to;
    to.strict = strict;
    to.fast = fast;
    to.phase = phase.c_str();
    if (!file.empty()) {
        to.file = file.c_str();
        return &to;
    }
    to.device = device.c_str();
    to.ranges = ranges.c_str();
    to.recipe = recipe.c_str();
    to.offload = offload.empty() ? nullptr : offload.c_str();
    return &to;
}

}  // namespace tessera
