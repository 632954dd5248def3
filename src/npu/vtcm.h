#pragma once
// Places in the tightly coupled memory, given out one after the other at compile time.
#include <cstdint>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera::npu {

class VtcmAllocator {
  public:
    explicit VtcmAllocator(int64_t capacity) : capacity_(capacity) {}

    struct Piece {
        std::string name;
        int64_t offset, bytes;
    };

    /// The offset of n_bytes >= 0 that nobody else has, a multiple of `alignment` (a power of two).
    /// OutOfMemory names the piece, what it takes and what is left.
    Result<uint32_t> take(const std::string& name, int64_t n_bytes, int64_t alignment);

    /// Bytes from 0 to the end of the last piece.
    int64_t peak() const { return used_; }
    const std::vector<Piece>& pieces() const { return pieces_; }

  private:
    int64_t capacity_, used_ = 0;
    std::vector<Piece> pieces_;
};

}  // namespace tessera::npu
