#pragma once
// Compile-time allocation of the tightly coupled memory (VTCM), sequentially.
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

    /// Allocates n_bytes >= 0 at a multiple of `alignment` (a power of two). OutOfMemory names the buffer,
    /// its size and the free space.
    Result<uint32_t> take(const std::string& name, int64_t n_bytes, int64_t alignment);

    /// End of the last allocation in bytes.
    int64_t peak() const { return used_; }
    const std::vector<Piece>& pieces() const { return pieces_; }

  private:
    int64_t capacity_, used_ = 0;
    std::vector<Piece> pieces_;
};

}  // namespace tessera::npu
