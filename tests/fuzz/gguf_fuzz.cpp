// Any bytes as a GGUF file. A file that opens is read in full.
#include "tests/gguf/raw_gguf.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto bytes = std::as_bytes(std::span(data, size));
    // A well-formed file has a version, so the sum is never 0; the return value keeps the reads from being
    // optimised away.
    const auto file = tessera::gguf::File::parse(bytes, "fuzz", {});
    if (file && tessera::test::touch(*file) == 0) return -1;
    return 0;
}
