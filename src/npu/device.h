#pragma once
// The description of one Hexagon Tensor Processor for the compiler, the emulator and the cost model: a JSON
// file with a flat list of fields. The results of a program do not depend on them; tile sizes and predicted
// times do.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/expected.h"

namespace tessera::npu {

/// One member for each row of device_fields(), which has units, ranges and meanings.
struct HtpDevice {
    std::string name;
    int64_t arch = 0;
    int64_t vtcm_bytes = 0, vtcm_span_bytes = 0;
    int64_t hw_threads = 0, hvx_contexts = 0, hvx_bytes = 0;
    double hvx_bytes_per_cycle = 0;
    int64_t clock_hz = 0;
    int64_t hmx_units = 0, hmx_mac_per_cycle = 0, hmx_deep_k_tiles = 0;
    double hmx_efficiency = 0;
    double dma_gb_per_s = 0;
    int64_t dma_latency_ns = 0, dma_max_1d = 0, dma_max_2d = 0;
    double ddr_peak_gb_per_s = 0;
    int64_t session_bytes = 0;
    double graph_us = 0, layer_us = 0;
    double model_gb_per_s = 0;
    int64_t model_kv_passes = 0;
    double model_score_ns = 0;
    double attention_elements_per_s = 0;
    bool lpbq = false, weight_sharing = false, matmul16 = false;

    /// Source of a field's value, by the field's name: "published: ...", "derived: ...", "fitted: ..." or
    /// "assumed: ...".
    std::vector<std::pair<std::string, std::string>> sources;

    /// XXH64 of canonical_text(), i.e. of the values without sources. Compiled files store it.
    uint64_t hash() const;
    /// `field=value` lines in the order of device_fields().
    std::string canonical_text() const;
    /// JSON as read by parse_device(), without the sources.
    std::string to_json() const;
};

struct DeviceField {
    std::string_view name;  ///< in JSON: "clock_hz", or "dma.latency_ns" for a member of the object "dma"
    std::string_view meaning;
    /// The member; the other three pointers are null.
    int64_t HtpDevice::*integer;
    double HtpDevice::*real;
    bool HtpDevice::*flag;
    double min, max;  ///< inclusive range of numbers
};

/// All fields except "name", in the order of files and reports.
std::span<const DeviceField> device_fields();

/// The value as text: digits that read back as the same number, "true", or "v73" of the architecture.
std::string field_text(const HtpDevice& device, const DeviceField& field);

/// Reads a description. All fields are required, "sources" may be left out. Errors name the field: unknown,
/// missing, of another kind, out of range.
Result<HtpDevice> parse_device(std::string_view json);

/// The names of the built-in descriptions.
std::span<const std::string_view> shipped_devices();

/// The built-in description of that name, or else the one in the file at that path.
Result<HtpDevice> open_device(const std::string& name_or_path);

}  // namespace tessera::npu
