#pragma once
// How long segments take on the device and on the processor beside it: a model on both sides, by which
// --npu-phase auto chooses. Nothing of it has any influence on what is computed by whom it chose.
#include "src/npu/device.h"
#include "src/npu/device_model.h"
#include "src/npu/partition.h"

namespace tessera::npu {

/// A phone's cores together: products of bytes, and bytes of weights read. By ExecuTorch's published 260 and
/// 50.2 tokens/s of Llama 3.2 1B with 4-bit weights on a Snapdragon 8 Gen 3: 0.97 G products for a token of a
/// prompt, 0.81 GB for one that is written.
struct ProcessorModel {
    double gmac_per_s = 250, gb_per_s = 40;
};

struct PhaseCost {
    double device_us = 0, processor_us = 0;

    bool is_faster() const { return device_us < processor_us; }
};

/// A pass of `rows` rows through all segments, of which the head has one. The device: instructions as
/// predict() has them, and overhead.graph_us for each segment; where one row is computed, overhead.layer_us
/// besides for each that is not the head, which is a whole layer's. The processor: products or weights of the
/// model's own file, whichever takes longer. `program` was recorded for one row with all logits; `segments`
/// are those of the model, and do not attend. Errors: those of lower().
Result<PhaseCost> phase_cost(const DeviceModel& model, const HtpDevice& device,
                             const record::Program& program, std::span<const DeviceRange> segments,
                             int64_t rows, const ProcessorModel& processor = {});

}  // namespace tessera::npu
