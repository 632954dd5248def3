// A bump allocator: a plan that does not fit is a compile-time error, never a smaller buffer.
#include "src/npu/vtcm.h"

#include "common/strings.h"

namespace tessera::npu {

Result<uint32_t> VtcmAllocator::take(const std::string& name, int64_t n_bytes, int64_t alignment) {
    const int64_t offset = (used_ + alignment - 1) / alignment * alignment;
    if (n_bytes > capacity_ - offset)
        return fail(ErrorCode::OutOfMemory, "%s: expected at most %s of VTCM that are left of %s, found %s",
                    name.c_str(),
                    format_bytes(static_cast<uint64_t>(offset < capacity_ ? capacity_ - offset : 0)).c_str(),
                    format_bytes(static_cast<uint64_t>(capacity_)).c_str(),
                    format_bytes(static_cast<uint64_t>(n_bytes)).c_str());
    used_ = offset + n_bytes;
    pieces_.push_back({name, offset, n_bytes});
    return static_cast<uint32_t>(offset);
}

}  // namespace tessera::npu
