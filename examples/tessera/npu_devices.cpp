// tessera npu devices: the descriptions of Hexagon processors, and what is in one. They are
// src/npu/device.h's.
#include "common/digest.h"
#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/npu/device.h"

namespace tessera {

namespace {

using npu::DeviceField;
using npu::HtpDevice;

struct DevicesArgs {
    std::string name;
    bool json = false;
};

std::string_view source_of(const HtpDevice& device, std::string_view field) {
    for (const auto& [name, source] : device.sources)
        if (name == field) return source;
    return "";
}

/// As a file has it, so that it can be changed and given back; the digest is not part of that.
Json as_json(const HtpDevice& device) {
    Json out = Json::parse(device.to_json());
    for (const auto& [name, source] : device.sources) out["sources"][name] = source;
    return out;
}

std::string as_text(const HtpDevice& device) {
    std::string out = device.name + ", digest " + to_hex(device.hash()) + "\n";
    for (const DeviceField& field : npu::device_fields())
        out += strf("  %-26s %-12s %s\n", std::string(field.name).c_str(),
                    npu::field_text(device, field).c_str(),
                    printable(source_of(device, field.name), 400).c_str());
    return out;
}

std::string row_of(const HtpDevice& device) {
    return strf("%-10s v%lld  %9s of VTCM, %5.1f GB/s, %5.1f TOPS, digest %s\n", device.name.c_str(),
                static_cast<long long>(device.arch),
                format_bytes(static_cast<uint64_t>(device.vtcm_bytes)).c_str(), device.dma_gb_per_s,
                2e-12 * static_cast<double>(device.hmx_mac_per_cycle * device.hmx_units) *
                    static_cast<double>(device.clock_hz),
                to_hex(device.hash()).c_str());
}

Result<void> print_devices(const DevicesArgs& args) {
    if (!args.name.empty()) {
        TSR_TRY(const HtpDevice device, npu::open_device(args.name));
        return console::print(args.json ? json_line(as_json(device)) : as_text(device));
    }
    std::string out;
    for (const std::string_view name : npu::shipped_devices()) {
        TSR_TRY(const HtpDevice device, npu::open_device(std::string(name)));
        out += args.json ? json_line(as_json(device)) : row_of(device);
    }
    return console::print(out);
}

Action declare_npu_devices(Options& options) {
    auto args = std::make_shared<DevicesArgs>();
    options.positional("DEVICE", args->name,
                       "One of the listed names, or a file of that form; default: all of them.");
    options.group("Output");
    options.flag("--json", args->json, "One JSON object a device, as a file of a description has it.");
    return [args] { return print_devices(*args); };
}

}  // namespace

const Command kNpuDevices = {.name = "npu devices",
                             .summary = "list the NPUs that can be emulated",
                             .help =
                                 "Lists the descriptions of Hexagon processors that come with the program, "
                                 "or what is in one and where\n"
                                 "each number comes from. A file with other numbers takes the place of a "
                                 "name everywhere. Times that are\n"
                                 "computed from a description are a model; the digest is of its values.",
                             .examples =
                                 "  tessera npu devices\n"
                                 "  tessera npu devices x-elite\n"
                                 "  tessera npu devices x-elite --json > mine.json\n",
                             .declare = declare_npu_devices};

}  // namespace tessera
