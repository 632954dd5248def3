// Graphs of one model differ only in rows and positions, so most of their constants are equal. Equal bytes
// are found by digest and then compared.
#include "src/npu/constants.h"

#include <algorithm>

#include "common/hash.h"

namespace tessera::npu {

uint64_t Constants::add(std::span<const std::byte> bytes) {
    Hash64 hash;
    hash.add(bytes);
    const uint64_t digest = hash.value();
    const auto [begin, end] = pieces_.equal_range(digest);
    for (auto it = begin; it != end; ++it) {
        const Piece& piece = it->second;
        if (piece.n_bytes == bytes.size() &&
            std::equal(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<int64_t>(piece.offset)))
            return piece.offset;
    }
    const uint64_t offset = (bytes_.size() + kAlignment - 1) / kAlignment * kAlignment;
    bytes_.resize(offset);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    pieces_.emplace(digest, Piece{offset, bytes.size()});
    return offset;
}

}  // namespace tessera::npu
