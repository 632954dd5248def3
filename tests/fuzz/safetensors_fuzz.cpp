// Any bytes as a safetensors file, and as a SentencePiece model: refused, or every value is within the input.
#include <cstdlib>
#include <numeric>

#include "src/convert/safetensors.h"
#include "src/convert/sentencepiece_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace tessera::convert;
    const auto bytes = std::as_bytes(std::span(data, size));
    unsigned sum = 0;
    if (const auto file = SafetensorsFile::parse(bytes, "fuzz")) {
        size_t n_bytes = 0;
        for (const SafeTensor& tensor : file->tensors()) {
            for (const std::byte b : tensor.data) sum += static_cast<unsigned>(b);
            n_bytes += tensor.data.size();
            const int64_t element = dtype_bytes(tensor.dtype);
            if (element > 0 && tensor.n_elements() * element != static_cast<int64_t>(tensor.data.size()))
                std::abort();
        }
        if (n_bytes > size) std::abort();
    }
    if (const auto model = parse_sentencepiece(bytes))
        for (const auto& piece : model->pieces) sum += static_cast<unsigned>(piece.text.size());
    return sum == 0xffffffffu ? -1 : 0;
}
