#pragma once
// The numbers of a config.json as keys of ours, and the tensors that are computed from them.
#include <string>
#include <utility>
#include <vector>

#include "ggml-like/gguf/writer.h"
#include "src/convert/hf_arch.h"
#include "src/model/hparams.h"

namespace tessera::convert {

struct HfNumbers {
    Hparams sizes;  ///< what size_of() asks for, and n_layer; nothing else is set
    /// Divisors of rotary frequencies: name and values.
    std::vector<std::pair<std::string, std::vector<float>>> rope_tensors;
};

/// Sets general.architecture and the architecture's keys. Errors name the key of config.json, what was
/// expected and what was found; among them rotary scalings that we do not run.
Result<HfNumbers> read_numbers(const HfArch& arch, const ArchSpec& spec, const HfConfig& config,
                               gguf::Writer& writer);

}  // namespace tessera::convert
