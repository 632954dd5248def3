#pragma once
// Names supported by this build: the tables of all layers, for callers that offer a choice.
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::engine {

enum class NameTable : uint8_t {
    Architectures,
    TensorTypes,
    Quantizations,
    Isas,  ///< supported by this CPU, the best first
    CacheTypes,
    ChatTemplates,
    AnswerFormats,
    Samplers,
};

/// The names of a table; each has static lifetime and is followed by a zero byte.
const std::vector<std::string_view>& names_in(NameTable table);

}  // namespace tessera::engine
