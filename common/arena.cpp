// Owns anonymous mappings and the bump allocator over one of them. Assumes Linux mmap, which hands out zeroed
// pages on first touch; a block of 2 MiB or more is over-mapped so that its start can be moved up to a
// huge-page boundary. Who holds which buffer is the caller's business (Model, PagePool, Activations).
#include "common/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/strings.h"

namespace tessera {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::create(size_t n_bytes, const char* what) {
    Buffer buffer;
    if (n_bytes == 0) return buffer;
    const bool huge = n_bytes >= kHugePage;
    const size_t slack = huge ? kHugePage : 0;
    void* base = MAP_FAILED;
    int error = ENOMEM;
    if (n_bytes <= SIZE_MAX - slack) {
        base = mmap(nullptr, n_bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        error = errno;
    }
    if (base == MAP_FAILED)
        return fail(ErrorCode::OutOfMemory, "%s: cannot allocate %s (%zu bytes): %s", what,
                    format_bytes(n_bytes).c_str(), n_bytes, std::generic_category().message(error).c_str());

    const size_t misaligned = reinterpret_cast<uintptr_t>(base) % kHugePage;
    const size_t shift = huge && misaligned != 0 ? kHugePage - misaligned : 0;
    buffer.base_ = base;
    buffer.mapped_ = n_bytes + slack;
    buffer.data_ = static_cast<std::byte*>(base) + shift;
    buffer.size_ = n_bytes;
    // Only a hint: a kernel without transparent huge pages refuses it, and the memory works all the same.
    if (huge) madvise(buffer.data_, n_bytes, MADV_HUGEPAGE);
    return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      mapped_(std::exchange(other.mapped_, 0)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    // The old mapping leaves with `moved`.
    Buffer moved(std::move(other));
    std::swap(base_, moved.base_);
    std::swap(mapped_, moved.mapped_);
    std::swap(data_, moved.data_);
    std::swap(size_, moved.size_);
    return *this;
}

Buffer::~Buffer() {
    if (base_) munmap(base_, mapped_);
}

Result<Arena> Arena::create(size_t n_bytes, const char* what) {
    Arena arena;
    TSR_TRY(arena.buffer_, Buffer::create(n_bytes, what));
    return arena;
}

std::byte* Arena::take_bytes(size_t n_bytes) {
    // Every piece but the last is padded, so an arena sized by the sum of padded() always suffices.
    TSR_CHECK(used_ <= capacity() && n_bytes <= capacity() - used_);
    std::byte* piece = buffer_.data() + used_;
    used_ += padded(n_bytes);
    return piece;
}

}  // namespace tessera
