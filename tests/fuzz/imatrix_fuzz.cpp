// An importance matrix of any bytes: an error, or one that can be added to itself.
#include <cstddef>
#include <cstdint>

#include "src/convert/imatrix_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using tessera::convert::Imatrix;
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto file = tessera::gguf::File::parse(bytes, "fuzz", {});
    if (!file) return 0;
    auto imatrix = Imatrix::read(*file);
    if (imatrix && !imatrix->add(Imatrix(*imatrix))) __builtin_trap();
    return 0;
}
