#pragma once
// Converts the hyperparameters of a config.json to GGUF keys, and computes tensors from them.
#include <string>
#include <utility>
#include <vector>

#include "ggml-like/gguf/writer.h"
#include "src/convert/hf_arch.h"
#include "src/model/hparams.h"

namespace tessera::convert {

struct HfNumbers {
    Hparams sizes;  ///< only n_layer and the sizes that size_of() needs are set
    /// Divisors of RoPE frequencies: name and values.
    std::vector<std::pair<std::string, std::vector<float>>> rope_tensors;
};

/// Sets general.architecture and the architecture's keys. Errors name the key of config.json, the expected
/// value and the value found; they include unsupported RoPE scalings.
Result<HfNumbers> read_numbers(const HfArch& arch, const ArchSpec& spec, const HfConfig& config,
                               gguf::Writer& writer);

}  // namespace tessera::convert
