#pragma once
// Sizes of tests, which the CTest entries with the label `slow` enlarge.
#include <cstdlib>

namespace tessera::test {

/// The environment variable as a number, or `otherwise` if it is not set.
inline double size_of_environment(const char* name, double otherwise) {
    const char* text = std::getenv(name);
    return text ? std::strtod(text, nullptr) : otherwise;
}

}  // namespace tessera::test
