// Memory as one block, and the bump allocator over one. pages.cpp maps it; the owners of buffers are their
// callers (Model, PagePool, Activations).
#include "common/arena.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/pages.h"
#include "common/strings.h"

namespace tessera {

Result<Buffer> Buffer::create(size_t n_bytes, const char* what) {
    Buffer buffer;
    if (n_bytes == 0) return buffer;
    void* const pages = map_pages(n_bytes);
    const int error = errno;
    if (!pages)
        return fail(ErrorCode::OutOfMemory, "%s: cannot allocate %s (%zu bytes): %s", what,
                    format_bytes(n_bytes).c_str(), n_bytes, std::generic_category().message(error).c_str());
    buffer.data_ = static_cast<std::byte*>(pages);
    buffer.size_ = n_bytes;
    return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    // The old mapping leaves with `moved`.
    Buffer moved(std::move(other));
    std::swap(data_, moved.data_);
    std::swap(size_, moved.size_);
    return *this;
}

Buffer::~Buffer() {
    if (data_) unmap_pages(data_, size_);
}

Result<Arena> Arena::create(size_t n_bytes, const char* what) {
    Arena arena;
    TSR_TRY(arena.buffer_, Buffer::create(n_bytes, what));
    return arena;
}

std::byte* Arena::take_bytes(size_t n_bytes) {
    // All pieces but the last are padded, so an arena sized by the sum of padded() always suffices.
    TSR_CHECK(used_ <= capacity() && n_bytes <= capacity() - used_);
    std::byte* piece = buffer_.data() + used_;
    used_ += padded(n_bytes);
    return piece;
}

}  // namespace tessera
