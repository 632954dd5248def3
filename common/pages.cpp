// Mapping of anonymous memory. Assumes Linux, which provides zeroed pages on first touch, and huge pages for
// ranges with MADV_HUGEPAGE. Used by arena.h and the tables of src/text and src/sample.
#include "common/pages.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tessera {

namespace {

size_t round_up(size_t n_bytes, size_t unit) { return (n_bytes + unit - 1) / unit * unit; }

/// The bytes that may use huge pages: all but a tail of less than half of one.
size_t huge_bytes(size_t n_bytes) { return (n_bytes + kHugePage / 2) / kHugePage * kHugePage; }

size_t mapped_bytes(size_t n_bytes) { return std::max(huge_bytes(n_bytes), round_up(n_bytes, page_size())); }

}  // namespace

size_t page_size() {
    static const size_t size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    return size;
}

void* map_pages(size_t n_bytes) {
    if (n_bytes > SIZE_MAX / 2) {
        errno = ENOMEM;
        return nullptr;
    }
    const size_t huge = huge_bytes(n_bytes), mapped = mapped_bytes(n_bytes);
    // Room to align the start to a huge page; the rest at both ends is unmapped.
    const size_t slack = huge > 0 ? kHugePage : 0;
    void* base = mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    if (huge == 0) return base;
    const size_t before =
        round_up(reinterpret_cast<uintptr_t>(base), kHugePage) - reinterpret_cast<uintptr_t>(base);
    std::byte* const pages = static_cast<std::byte*>(base) + before;
    if (before > 0) munmap(base, before);
    if (slack > before) munmap(pages + mapped, slack - before);
    // A hint: without transparent huge pages the kernel refuses it, and the memory works as well.
    madvise(pages, huge, MADV_HUGEPAGE);
    return pages;
}

void unmap_pages(void* pages, size_t n_bytes) { munmap(pages, mapped_bytes(n_bytes)); }

}  // namespace tessera
