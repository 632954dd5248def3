// Parses device descriptions from JSON with one table of fields. Descriptions come from user files as well as
// from src/npu/devices, so everything is checked here, and other code relies on the ranges.
#include "src/npu/device.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "common/digest.h"
#include "common/json.h"
#include "common/strings.h"
#include "src/npu/json_fields.h"
#include "src/npu/layout.h"
#include "src/npu/shipped.h"

namespace tessera::npu {

namespace {

constexpr DeviceField integer(std::string_view name, int64_t HtpDevice::*at, double min, double max,
                              std::string_view meaning) {
    return {name, meaning, at, nullptr, nullptr, min, max};
}
constexpr DeviceField real(std::string_view name, double HtpDevice::*at, double min, double max,
                           std::string_view meaning) {
    return {name, meaning, nullptr, at, nullptr, min, max};
}
constexpr DeviceField flag(std::string_view name, bool HtpDevice::*at, std::string_view meaning) {
    return {name, meaning, nullptr, nullptr, at, 0, 0};
}

using D = HtpDevice;
constexpr double kMega = 1 << 20, kGiga = 1 << 30;

constexpr DeviceField kDeviceFields[] = {
    integer("arch", &D::arch, 66, 99, "generation of the instruction set, as \"v73\""),
    integer("vtcm_bytes", &D::vtcm_bytes, 16 << 10, 64 * kMega,
            "bytes of tightly coupled memory, a multiple of 2048"),
    integer("vtcm_span_bytes", &D::vtcm_span_bytes, 0, 64 * kMega,
            "no operand of a matrix instruction may cross a multiple of this; a power of two >= 2048, 0: "
            "no restriction"),
    integer("hw_threads", &D::hw_threads, 1, 64, "scalar hardware threads"),
    integer("hvx.contexts", &D::hvx_contexts, 1, 64, "concurrent vector units"),
    integer("hvx.bytes", &D::hvx_bytes, 64, 512, "bytes of a vector"),
    real("hvx.bytes_per_cycle", &D::hvx_bytes_per_cycle, 1, 4096,
         "bytes that one vector unit reads and writes per cycle"),
    integer("clock_hz", &D::clock_hz, 1e8, 1e10, "cycles per second of all units"),
    integer("hmx.units", &D::hmx_units, 1, 8, "matrix units"),
    integer("hmx.mac_per_cycle", &D::hmx_mac_per_cycle, 256, 1e6,
            "products of 8-bit numbers per cycle and matrix unit"),
    integer("hmx.deep_k_tiles", &D::hmx_deep_k_tiles, 1, 4096,
            "tiles of 32 inputs that one matrix instruction takes"),
    real("hmx.efficiency", &D::hmx_efficiency, 0.01, 1, "sustained fraction of the peak products per cycle"),
    real("dma.gb_per_s", &D::dma_gb_per_s, 0.1, 10000, "10^9 bytes per second between DDR and VTCM"),
    integer("dma.latency_ns", &D::dma_latency_ns, 0, 1e6,
            "nanoseconds from the start of a transfer to its first byte"),
    integer("dma.max_1d", &D::dma_max_1d, 2048, 4294967295.0, "bytes that one linear descriptor moves"),
    integer("dma.max_2d", &D::dma_max_2d, 2048, 4294967295.0,
            "largest row, number of rows and stride of a two-dimensional descriptor"),
    real("ddr_peak_gb_per_s", &D::ddr_peak_gb_per_s, 0.1, 10000,
         "peak memory bandwidth in 10^9 bytes per second"),
    integer("session_bytes", &D::session_bytes, 1 << 20, 1024 * kGiga, "address space of one session"),
    real("overhead.graph_us", &D::graph_us, 0, 1e6, "microseconds to start a graph"),
    real("overhead.layer_us", &D::layer_us, 0, 1e6,
         "microseconds of a layer in addition to its transfers, for one row"),
    real("model_fit.gb_per_s", &D::model_gb_per_s, 0.1, 10000,
         "10^9 bytes per second of a decode step, for estimates from sizes"),
    integer("model_fit.kv_passes", &D::model_kv_passes, 1, 100,
            "times that the KV cache counts in the bytes of a decode step"),
    real("model_fit.score_ns", &D::model_score_ns, 0, 1e6,
         "nanoseconds of one vector unit per attention score of a decode step"),
    real("attention_elements_per_s", &D::attention_elements_per_s, 1e6, 1e15,
         "attention scores per second, including scaling, softmax and values"),
    flag("features.lpbq", &D::lpbq, "4-bit weights with a scale per block of inputs"),
    flag("features.weight_sharing", &D::weight_sharing, "graphs of one file share their weights"),
    flag("features.matmul16", &D::matmul16, "products of two 16-bit tensors"),
};

constexpr std::string_view kSourceKinds[] = {"published: ", "derived: ", "fitted: ", "assumed: "};

std::string number_text(double value) {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, value);
    return {text, end.ptr};
}

/// A member of the object; "a.b" names member b of the object's member a.
const JsonValue* member(const JsonValue& root, std::string_view field) {
    const size_t dot = field.find('.');
    if (dot == field.npos) return root.find(field);
    const JsonValue* group = root.find(field.substr(0, dot));
    return group && group->is(JsonValue::Kind::Object) ? group->find(field.substr(dot + 1)) : nullptr;
}

bool is_field(std::string_view name) {
    return std::any_of(std::begin(kDeviceFields), std::end(kDeviceFields),
                       [&](const DeviceField& field) { return field.name == name; });
}

bool is_group(std::string_view name) {
    return std::any_of(std::begin(kDeviceFields), std::end(kDeviceFields), [&](const DeviceField& field) {
        return field.name.size() > name.size() && field.name.starts_with(name) &&
               field.name[name.size()] == '.';
    });
}

tl::unexpected<Error> unknown(const std::string& name) {
    std::vector<std::string_view> names = {"name", "sources"};
    for (const DeviceField& field : kDeviceFields) names.push_back(field.name);
    return unknown_field(name, names);
}

/// Checks that every member is a field, or an object of fields.
Result<void> check_names(const JsonValue& root) {
    for (const auto& [name, value] : root.members) {
        if (name == "name" || name == "sources" || is_field(name)) continue;
        if (!is_group(name)) return unknown(name);
        if (!value.is(JsonValue::Kind::Object)) return wrong_field(name, "an object", value);
        for (const auto& [inner, inner_value] : value.members)
            if (!is_field(name + "." + inner)) return unknown(name + "." + inner);
    }
    return {};
}

Result<void> read_field(const DeviceField& field, const JsonValue& value, HtpDevice& device) {
    if (field.flag) {
        if (!value.is(JsonValue::Kind::Boolean)) return wrong_field(field.name, "true or false", value);
        device.*field.flag = value.boolean;
        return {};
    }
    if (field.integer == &D::arch) {
        const bool is_text = value.is(JsonValue::Kind::String) && value.text.starts_with("v");
        const auto arch = is_text ? parse_int(value.text.substr(1)) : std::nullopt;
        if (!arch || static_cast<double>(*arch) < field.min || static_cast<double>(*arch) > field.max)
            return wrong_field(field.name, "a text from \"v66\" to \"v99\"", value);
        device.arch = *arch;
        return {};
    }
    const std::string range = number_text(field.min) + " to " + number_text(field.max);
    const bool is_number = value.is(JsonValue::Kind::Number);
    if (field.integer) {
        const auto n = is_number ? parse_int(value.text) : std::nullopt;
        if (!n || static_cast<double>(*n) < field.min || static_cast<double>(*n) > field.max)
            return wrong_field(field.name, "an integer from " + range, value);
        device.*field.integer = *n;
        return {};
    }
    const auto x = is_number ? parse_double(value.text) : std::nullopt;
    if (!x || !(*x >= field.min && *x <= field.max))
        return wrong_field(field.name, "a number from " + range, value);
    device.*field.real = *x;
    return {};
}

Result<void> read_name(const JsonValue& root, HtpDevice& device) {
    const JsonValue* name = root.find("name");
    if (!name) return missing_field("name");
    const std::string_view allowed = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
    if (!name->is(JsonValue::Kind::String) || name->text.empty() || name->text.size() > 64 ||
        name->text.find_first_not_of(allowed) != std::string::npos)
        return wrong_field("name", "1 to 64 small letters, digits, '-', '_' and '.'", *name);
    device.name = name->text;
    return {};
}

Result<void> read_sources(const JsonValue& root, HtpDevice& device) {
    const JsonValue* sources = root.find("sources");
    if (!sources) return {};
    if (!sources->is(JsonValue::Kind::Object)) return wrong_field("sources", "an object", *sources);
    for (const auto& [name, value] : sources->members) {
        const std::string place = "sources." + printable(name);
        if (!is_field(name))
            return fail(ErrorCode::Malformed, "'%s': there is no field of that name", place.c_str());
        const auto fits = [&](std::string_view kind) { return value.text.starts_with(kind); };
        if (!value.is(JsonValue::Kind::String) ||
            std::none_of(std::begin(kSourceKinds), std::end(kSourceKinds), fits))
            return wrong_field(
                place, "a text that starts with 'published: ', 'derived: ', 'fitted: ' or 'assumed: '",
                value);
        device.sources.emplace_back(name, value.text);
    }
    return {};
}

}  // namespace

std::span<const DeviceField> device_fields() { return kDeviceFields; }

std::string field_text(const HtpDevice& device, const DeviceField& field) {
    if (field.flag) return device.*field.flag ? "true" : "false";
    if (field.real) return number_text(device.*field.real);
    return (field.integer == &D::arch ? "v" : "") + std::to_string(device.*field.integer);
}

std::string HtpDevice::canonical_text() const {
    std::string text = "name=" + name + "\n";
    for (const DeviceField& field : kDeviceFields)
        text += std::string(field.name) + "=" + field_text(*this, field) + "\n";
    return text;
}

uint64_t HtpDevice::hash() const {
    Xxh64 digest;
    const std::string text = canonical_text();
    digest.add(std::as_bytes(std::span(text)));
    return digest.value();
}

std::string HtpDevice::to_json() const {
    std::string text = "{\"name\": \"" + name + "\"";
    std::string_view open;  // the currently open object
    for (const DeviceField& field : kDeviceFields) {
        const size_t dot = field.name.find('.');
        const std::string_view group = dot == field.name.npos ? "" : field.name.substr(0, dot);
        if (group != open && !open.empty()) text += "}";
        text += ", ";
        if (group != open && !group.empty()) text += "\"" + std::string(group) + "\": {";
        open = group;
        const std::string quote = field.integer == &D::arch ? "\"" : "";
        text += "\"" + std::string(field.name.substr(group.empty() ? 0 : dot + 1)) + "\": " + quote +
                field_text(*this, field) + quote;
    }
    return text + (open.empty() ? "}" : "}}");
}

Result<HtpDevice> parse_device(std::string_view json) {
    TSR_TRY(const JsonValue root, parse_json(json));
    TSR_TRY_VOID(check_object(root));
    HtpDevice device;
    TSR_TRY_VOID(check_names(root));
    TSR_TRY_VOID(read_name(root, device));
    for (const DeviceField& field : kDeviceFields) {
        const JsonValue* value = member(root, field.name);
        if (!value) return missing_field(field.name);
        TSR_TRY_VOID(read_field(field, *value, device));
    }
    if (device.vtcm_bytes % kActTileBytes != 0)
        return fail(ErrorCode::Malformed, "'vtcm_bytes': expected a multiple of %lld, found %lld",
                    static_cast<long long>(kActTileBytes), static_cast<long long>(device.vtcm_bytes));
    const auto span = static_cast<uint64_t>(device.vtcm_span_bytes);
    if (span != 0 && (!std::has_single_bit(span) || device.vtcm_span_bytes < kActTileBytes))
        return fail(ErrorCode::Malformed,
                    "'vtcm_span_bytes': expected 0 or a power of two from %lld on, found %lld",
                    static_cast<long long>(kActTileBytes), static_cast<long long>(device.vtcm_span_bytes));
    TSR_TRY_VOID(read_sources(root, device));
    return device;
}

std::span<const std::string_view> shipped_devices() {
    static const std::vector<std::string_view> names = names_of(shipped_device_files());
    return names;
}

Result<HtpDevice> open_device(const std::string& name_or_path) {
    return open_shipped("device", shipped_device_files(), name_or_path, parse_device);
}

}  // namespace tessera::npu
