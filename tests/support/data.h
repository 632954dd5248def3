#pragma once
// The files that tests read: those of the checkout (tests/data), the models that the build makes
// (tests/reference/make_models.py), and the reference data beside the checkout, which may be absent.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera::test {

/// Path of a file of tests/data.
inline std::string data_file(const std::string& relative) { return TSR_SOURCE_DIR "/tests/data/" + relative; }

/// Path of a model that the build makes, e.g. llama, tiny/tiny-f16 or bad/zerodim.
inline std::string model_file(const std::string& name) {
    return TSR_BINARY_DIR "/test-models/" + name + ".gguf";
}

/// Path in the reference data: in $TESSERA_SHARED, else in `shared` beside the checkout. A test that needs
/// the file calls TSR_NEED_SHARED first, which skips it where the file is absent.
inline std::string shared(const std::string& relative) {
    const char* dir = std::getenv("TESSERA_SHARED");
    return (dir ? std::string(dir) : TSR_SOURCE_DIR "/../shared") + "/" + relative;
}

inline std::string read_file(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace tessera::test

#define TSR_NEED_SHARED(relative)                                  \
    if (!std::filesystem::exists(tessera::test::shared(relative))) \
    GTEST_SKIP() << "reference data not present: " << tessera::test::shared(relative)
