#pragma once
// What this build knows, by name: the tables of all layers, for callers that choose from them.
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::engine {

enum class NameTable : uint8_t {
    Architectures,
    TensorTypes,
    Quantizations,
    Isas,  ///< those that this processor can use, the best first
    CacheTypes,
    ChatTemplates,
    AnswerFormats,
    Samplers,
};

/// The names, each of which lives for ever and is followed by a zero byte.
const std::vector<std::string_view>& names_in(NameTable table);

}  // namespace tessera::engine
