#pragma once
// Counts the heap allocations of a test program by replacing operator new. Include it in exactly one source
// of the program, because it defines the replacements.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace tessera::test {

inline std::atomic<uint64_t> n_allocations{0};
inline std::atomic<uint64_t> allocated_bytes{0};

inline void* counted_allocation(size_t n_bytes) {
    n_allocations.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes.fetch_add(n_bytes, std::memory_order_relaxed);
    if (void* memory = std::malloc(n_bytes ? n_bytes : 1)) return memory;
    std::abort();
}

}  // namespace tessera::test

void* operator new(size_t n_bytes) { return tessera::test::counted_allocation(n_bytes); }
void* operator new[](size_t n_bytes) { return tessera::test::counted_allocation(n_bytes); }
// Not inlined: where only one of a pair is, gcc 12 warns that they do not match.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
