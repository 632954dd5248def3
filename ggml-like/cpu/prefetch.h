#pragma once
// Prefetch of memory that the CPU backend reads or writes soon and that the hardware prefetcher does not
// predict. It sets speed, never results.
#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tessera::cpu {

/// Prefetches slice i of n_parts of n bytes into L2. Slices are for a page of keys or values, which is too
/// short for the hardware prefetcher and too long for one burst: a core has about 24 outstanding misses.
inline void prefetch_l2(const void* p, size_t n, size_t i = 0, size_t n_parts = 1) {
    const size_t end = n * (i + 1) / n_parts;
    for (size_t at = n * i / n_parts; at < end; at += 64)
        __builtin_prefetch(static_cast<const char*>(p) + at, 0, 2);
}

/// Touches the first and the last of n bytes to fill the TLB: without huge pages a page walk takes longer
/// than a cache line, and later prefetches need not wait for it.
inline void prefetch_tlb(const void* p, size_t n) {
    prefetch_l2(p, 1);
    prefetch_l2(static_cast<const char*>(p) + n - 1, 1);
}

/// Rows that are prefetched ahead of their use: row strides of 8 KiB and more defeat the hardware prefetcher,
/// and a row that another core wrote last takes a round trip (prompts +1 to 3 % where cores are far apart).
constexpr int64_t kRowsAhead = 8;

/// n rows, each prefetched kRowsAhead rows before its turn; the first ones at construction, so that work
/// between that and each() hides their latency. Prefetch: called for every step-th row alone, where one call
/// covers `step` rows.
template <class Prefetch>
class PrefetchedRows {
  public:
    PrefetchedRows(int64_t n, int64_t step, Prefetch prefetch) : n_(n), step_(step), prefetch_(prefetch) {
        for (int64_t t = 0; t < std::min(kRowsAhead, n); t += step) prefetch_(t);
    }
    template <class Fn>
    void each(Fn&& fn) const {
        for (int64_t t = 0; t < n_; ++t) {
            const int64_t ahead = t + kRowsAhead;
            if (ahead < n_ && ahead % step_ == 0) prefetch_(ahead);
            fn(t);
        }
    }

  private:
    int64_t n_, step_;
    Prefetch prefetch_;
};

}  // namespace tessera::cpu
