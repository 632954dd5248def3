#pragma once
#include <string>

#include "quants/types.h"

namespace tessera {

/// As reports print it: "Q4_K".
inline std::string type_name(Type type) { return std::string(type_info(type).name); }

}  // namespace tessera
