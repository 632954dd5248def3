#pragma once
// Where the reference data lies. Tests that need it call TSR_NEED_SHARED, which skips with a message.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera::test {

/// Path of the reference data: $TESSERA_SHARED, else `shared` beside the checkout.
inline std::string shared_dir() {
    if (const char* dir = std::getenv("TESSERA_SHARED")) return dir;
    return TSR_SOURCE_DIR "/../shared";
}

inline std::string shared(const std::string& relative) { return shared_dir() + "/" + relative; }

inline std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace tessera::test

#define TSR_NEED_SHARED(relative)                                  \
    if (!std::filesystem::exists(tessera::test::shared(relative))) \
    GTEST_SKIP() << "reference data not present: " << tessera::test::shared(relative)
