#pragma once
// What the compiler, the emulator and the cost model know of one Hexagon Tensor Processor: a JSON file of a
// flat list of fields. The numbers a program computes depend on none of them; what fits and how long it is
// said to take does.
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

    /// Where a field's value comes from, by the field's name: "published: ...", "derived: ...", "fitted: ..."
    /// or "assumed: ...".
    std::vector<std::pair<std::string, std::string>> sources;

    /// Of the values, not of the sources: XXH64 of canonical_text(). What is compiled for one device carries
    /// it.
    uint64_t hash() const;
    /// `field=value` lines in the order of device_fields().
    std::string canonical_text() const;
    /// As parse_device() reads it, without the sources.
    std::string to_json() const;
};

struct DeviceField {
    std::string_view name;  ///< in JSON: "clock_hz", or "dma.latency_ns" for a member of the object "dma"
    std::string_view meaning;
    /// Which member; the other three are null.
    int64_t HtpDevice::*integer;
    double HtpDevice::*real;
    bool HtpDevice::*flag;
    double min, max;  ///< of numbers, both allowed
};

/// All fields but "name", in the order of files and reports.
std::span<const DeviceField> device_fields();

/// The value as text: digits that read back as the same number, "true", or "v73" of the architecture.
std::string field_text(const HtpDevice& device, const DeviceField& field);

/// Reads a description. All fields are required, "sources" may be left out. Errors name the field: unknown,
/// missing, of another kind, out of range.
Result<HtpDevice> parse_device(std::string_view json);

/// The names of the descriptions in this program.
std::span<const std::string_view> shipped_devices();

/// The description of that name in this program, or else the one in the file of that path.
Result<HtpDevice> open_device(const std::string& name_or_path);

}  // namespace tessera::npu
