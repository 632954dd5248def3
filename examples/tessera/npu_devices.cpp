// tessera npu devices: lists the descriptions of Hexagon processors, or prints one. They are defined in
// src/npu/device.h.
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

/// In the format of a description file, so that it can be edited and used; without the digest.
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
    options.positional("DEVICE", args->name, "A listed name, or a description file (default: all of them).");
    options.group("Output");
    options.flag("--json", args->json,
                 "Print one JSON object per device, in the format of a description file.");
    return [args] { return print_devices(*args); };
}

}  // namespace

const Command kNpuDevices = {
    .name = "npu devices",
    .summary = "list the emulated NPUs",
    .help =
        "Lists the built-in descriptions of Hexagon processors, or the values of one "
        "with their sources. A description file can be used in place of a name "
        "everywhere. Times computed from a description are predictions; the digest "
        "covers its values.",
    .examples =
        "  tessera npu devices\n"
        "  tessera npu devices x-elite\n"
        "  tessera npu devices x-elite --json > mine.json\n",
    .declare = declare_npu_devices};

}  // namespace tessera
