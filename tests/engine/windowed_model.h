#pragma once
// Reference models with other windows.
#include <cstdint>
#include <cstring>
#include <string>

#include "tests/support/data.h"
#include "tests/support/temp_folder.h"

namespace tessera::engine {

/// The reference model with another window: the key's value follows its name and its type in the file.
inline std::string with_window(const test::TempFolder& folder, const std::string& name,
                               const std::string& prefix, uint32_t window) {
    std::string bytes = test::read_file(test::model_file(name));
    const std::string key = prefix + ".attention.sliding_window";
    std::memcpy(bytes.data() + bytes.find(key) + key.size() + 4, &window, 4);
    return folder.write(name + std::to_string(window) + ".gguf", bytes);
}

}  // namespace tessera::engine
