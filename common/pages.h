#pragma once
// Anonymous memory in huge pages where it is large enough, and an allocator of such memory for containers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tessera {

/// Huge pages of x86, and of AArch64 with pages of 4 KiB.
constexpr size_t kHugePage = size_t{2} << 20;

/// The system's page size: 4 KiB, on some AArch64 systems 16 or 64.
size_t page_size();

/// Zero-filled private memory of n_bytes > 0, or null with errno set. Memory of half a huge page or more
/// starts at a huge page boundary, and all of it but a tail of less than half a huge page may use huge pages.
/// Any thread.
void* map_pages(size_t n_bytes);
/// Unmaps the result of map_pages(n_bytes).
void unmap_pages(void* pages, size_t n_bytes);

/// For tables that are filled once and accessed at random. A huge page costs one page fault and one TLB
/// entry, where small ones cost 512. Tables of less than half a huge page are on the heap.
template <class T>
class PageAllocator {
  public:
    using value_type = T;

    PageAllocator() = default;
    template <class U>
    PageAllocator(const PageAllocator<U>&) {}  // implicit, as containers require

    T* allocate(size_t n) {
        if (!has_pages(n)) return std::allocator<T>().allocate(n);
        void* const pages = map_pages(n * sizeof(T));
        if (!pages) throw std::bad_alloc();
        return static_cast<T*>(pages);
    }

    void deallocate(T* at, size_t n) {
        if (has_pages(n))
            unmap_pages(at, n * sizeof(T));
        else
            std::allocator<T>().deallocate(at, n);
    }

    friend bool operator==(const PageAllocator&, const PageAllocator&) { return true; }

  private:
    // Absurd sizes are left to the other allocator to refuse.
    static bool has_pages(size_t n) {
        return n >= kHugePage / 2 / sizeof(T) && n <= SIZE_MAX / 2 / sizeof(T);
    }
};

/// Reserve the final size: while it grows, both the old and the new memory are allocated.
template <class T>
using PageVector = std::vector<T, PageAllocator<T>>;

}  // namespace tessera
