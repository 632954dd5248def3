// Input of packing and quantizing, which are in packed_file.cpp and src/convert/quantize_file.cpp. Assumes
// that a finished chunk is not read again.
#include "src/model/input_pieces.h"

#include <algorithm>

#include "common/strings.h"

namespace tessera {

InputPieces::InputPieces(const gguf::File& in, const ThreadPool& pool, const ByteProgress& progress)
    : in_(in), pool_(pool), progress_(progress) {
    for (const gguf::TensorInfo& tensor : in.tensors()) total_ += tensor.data.size();
}

Result<void> InputPieces::done(std::span<const std::byte> piece) {
    in_.release(piece);
    done_ += piece.size();
    if (progress_) progress_(done_, total_);
    if (pool_.aborted())
        return fail(ErrorCode::Cancelled, "%s: interrupted; nothing was written",
                    printable(in_.path(), 400).c_str());
    return {};
}

Result<void> InputPieces::copy(std::span<const std::byte> data, gguf::Writer& writer) {
    for (size_t at = 0; at < data.size(); at += kPieceBytes) {
        const auto piece = data.subspan(at, std::min(kPieceBytes, data.size() - at));
        TSR_TRY_VOID(writer.write(piece));
        TSR_TRY_VOID(done(piece));
    }
    return {};
}

}  // namespace tessera
