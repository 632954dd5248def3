#pragma once
// Anonymous memory in huge pages where it is large enough, and an allocator of such memory for containers.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace tessera {

/// Of x86, and of AArch64 with pages of 4 KiB.
constexpr size_t kHugePage = size_t{2} << 20;

/// Of the system: 4 KiB, on some AArch64 16 or 64.
size_t page_size();

/// Zero-filled memory of n_bytes > 0 for the caller alone, null where the system has none (errno says why).
/// From half a huge page on it starts where a huge page does, and all but a last piece of less than half of
/// one may lie in huge pages. Any thread.
void* map_pages(size_t n_bytes);
/// Gives back what map_pages(n_bytes) returned.
void unmap_pages(void* pages, size_t n_bytes);

/// For tables that are filled once and looked up all over. A huge page is one fault, and one entry of what a
/// processor remembers of pages, where small ones are 512. What is less than half of one lies in the heap.
template <class T>
class PageAllocator {
  public:
    using value_type = T;

    PageAllocator() = default;
    template <class U>
    PageAllocator(const PageAllocator<U>&) {}  // implicit, as containers want it

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
    // What is more than half of all memory is left to the other allocator to refuse.
    static bool has_pages(size_t n) {
        return n >= kHugePage / 2 / sizeof(T) && n <= SIZE_MAX / 2 / sizeof(T);
    }
};

/// Reserve what it will hold: while it grows, both the old and the new memory are taken.
template <class T>
using PageVector = std::vector<T, PageAllocator<T>>;

}  // namespace tessera
