#pragma once
// Memory whose last byte is followed by an inaccessible page, for kernels that must not read or write past
// the end of their operands.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace tessera::test {

class GuardedBuffer {
  public:
    explicit GuardedBuffer(size_t capacity) {
        const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
        usable_ = (capacity + page - 1) / page * page;
        mapped_ = usable_ + page;
        void* p = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        base_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
        if (base_) mprotect(base_ + usable_, page, PROT_NONE);
    }
    ~GuardedBuffer() {
        if (base_) munmap(base_, mapped_);
    }
    GuardedBuffer(const GuardedBuffer&) = delete;
    GuardedBuffer& operator=(const GuardedBuffer&) = delete;

    /// The last n_bytes before the guard page (n_bytes <= capacity).
    std::byte* last(size_t n_bytes) const { return base_ + (usable_ - n_bytes); }
    template <class T>
    T* last_of(size_t n) const {
        return reinterpret_cast<T*>(last(n * sizeof(T)));
    }

  private:
    std::byte* base_ = nullptr;
    size_t usable_ = 0;
    size_t mapped_ = 0;
};

}  // namespace tessera::test
