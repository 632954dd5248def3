#pragma once
// Predicted times of segments on the device and on the CPU next to it, from which --npu-phase auto chooses.
// The choice does not influence results of either.
#include "src/npu/device.h"
#include "src/npu/device_model.h"
#include "src/npu/partition.h"

namespace tessera::npu {

/// All cores of a phone: int8 products/s, and weight bytes/s. From ExecuTorch's published 260 (prefill) and
/// 50.2 (decode) tokens/s of Llama 3.2 1B with 4-bit weights on a Snapdragon 8 Gen 3: 0.97 G products per
/// prefill token, 0.81 GB per decoded token.
struct ProcessorModel {
    double gmac_per_s = 250, gb_per_s = 40;
};

struct PhaseCost {
    double device_us = 0, processor_us = 0;

    bool is_faster() const { return device_us < processor_us; }
};

/// Times of a pass of `rows` rows through all segments; the head has one row. Device: the instructions as in
/// predict(), plus overhead.graph_us for each segment and, for passes of one row, overhead.layer_us for each
/// segment other than the head. CPU: the larger of the times of products and of weight bytes of the model's
/// file. `program` must be recorded for one row with all logits; `segments` are those of the model and
/// contain no attention. Errors: those of lower().
Result<PhaseCost> phase_cost(const DeviceModel& model, const HtpDevice& device,
                             const record::Program& program, std::span<const DeviceRange> segments,
                             int64_t rows, const ProcessorModel& processor = {});

}  // namespace tessera::npu
