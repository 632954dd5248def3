#pragma once
// Memory that the CPU verbs read next and that no processor sees coming. It sets speed, never results.
#include <cstddef>

namespace tessera::cpu {

/// Asks for part i of n_parts of n bytes, as far as the second cache. Of a page that is too short to be seen
/// coming and too long to be asked for at once, parts: a core waits for two dozen lines at a time.
inline void fetch(const void* p, size_t n, size_t i = 0, size_t n_parts = 1) {
    const size_t end = n * (i + 1) / n_parts;
    for (size_t at = n * i / n_parts; at < end; at += 64)
        __builtin_prefetch(static_cast<const char*>(p) + at, 0, 2);
}

/// Asks for the first and the last of n bytes, since where they lie is found out on the way: lines asked for
/// later do not wait for that, which takes longer than a line itself where no huge page is behind it.
inline void prefetch_tlb(const void* p, size_t n) {
    fetch(p, 1);
    fetch(static_cast<const char*>(p) + n - 1, 1);
}

}  // namespace tessera::cpu
