// --npu, --npu-device and what goes with them. Preparing a model is src/engine/npu_offload.cpp's.
#include "examples/tessera/npu_flags.h"

#include "examples/tessera/console.h"
#include "src/engine/npu_phase.h"

namespace tessera {

void NpuFlags::declare(Options& options) {
    options.group("NPU");
    options.text("--npu", "FILE", file, "Have an NPU, which is emulated, compute what was compiled for it.");
    options.text("--npu-device", "NAME|FILE", device,
                 "Have this NPU, which is emulated, compute what it can (tessera npu devices).");
    options.text("--npu-ranges", "FILE", ranges,
                 "The model's ranges of activations, from tessera npu calibrate.");
    options.text("--npu-recipe", "NAME|FILE", recipe,
                 "Which numbers become integers of which kind. (default: w4a16)");
    options.integer("--npu-layers", n_layers, 0, 1 << 20,
                    "Only the first so many layers; 0: all, and the head.");
    options.text("--offload", "LIST", offload, "Only these, such as blk.0-15.ffn,blk.*.attn,output.");
    options.flag("--npu-strict", strict, "Refuse where something of these stays on the processor.");
    options.flag("--npu-fast", fast, "Leave out the copies through the NPU's memory: the same bits sooner.");
    options.text("--npu-phase", "WHICH", phase,
                 "Whose tokens: prefill (prompts), decode (what is written), both, auto. (default: both)");
    options.check([this, options]() -> Result<void> {
        if (!device.empty() && ranges.empty())
            return fail(ErrorCode::InvalidArgument, "--npu-device: expected --npu-ranges FILE with it");
        if (!file.empty() && !device.empty())
            return fail(ErrorCode::InvalidArgument, "--npu-device: expected no --npu with it, found both");
        for (const char* name : {"--npu-ranges", "--npu-recipe", "--npu-layers", "--offload"})
            if (device.empty() && options.given(name))
                return fail(ErrorCode::InvalidArgument, "%s: expected --npu-device with it", name);
        if (strict && !is_on())
            return fail(ErrorCode::InvalidArgument, "--npu-strict: expected --npu or --npu-device with it");
        for (const char* name : {"--npu-fast", "--npu-phase"})
            if (!is_on() && options.given(name))
                return fail(ErrorCode::InvalidArgument, "%s: expected --npu or --npu-device with it", name);
        if (auto known = engine::npu_phase_from_name(phase); !known)
            return fail_in("--npu-phase", std::move(known.error()));
        if (!offload.empty() && n_layers > 0)
            return fail(ErrorCode::InvalidArgument,
                        "--npu-layers: expected no --offload with it, found both");
        if (n_layers > 0) offload = "blk.0-" + std::to_string(n_layers - 1);
        return {};
    });
}

void NpuFlags::tell() {
    console::note("npu: it is emulated: the results are real, and this is not its speed");
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
