#pragma once
// Software prefetch of packed weights. A Prefetcher is a template parameter of the weight sources
// (packed_sources.inl), with hooks that a source calls as it reads R groups of F:
//     open_unit(p, unit, group_bytes)      a unit begins; prefetches as many bytes as its head has
//     open_block(p, unit, group_bytes, b)  block b begins; prefetches as many bytes as it has
//     between(p, group_bytes, b, g, ...)   operands from group g of four k on are loaded next
// Over the operations of the unit that includes this: prefetch_l1, prefetch_l2.
#include <stdint.h>

#include "quants/kernels/inline.h"
#include "quants/kernels/tuning.h"

namespace tessera::kernels {
namespace {

constexpr int kNoPrefetch = -1;

/// The addresses that a stream prefetches while its units are read.
struct PrefetchPlan {
    const uint8_t* end;  // of the first group, or of all groups that its stream reads in a row
    int64_t wrap;        // bytes from there to the address that the stream reads next
    int l1 = kNoPrefetch, l2 = kNoPrefetch;  // bytes ahead
    int first_line = kNoPrefetch;            // of each unit's first line alone

    /// The address n bytes after `unit`, which past the end continues at the stream's next address; null for
    /// kNoPrefetch.
    TSR_INLINE const uint8_t* ahead(const PrefetchPlan& plan, const uint8_t* unit, int n) {
        if (n == kNoPrefetch) return nullptr;
        const uint8_t* p = unit + n;
        return p >= plan.end ? p + plan.wrap : p;
    }
};

/// Whether n < 64 bytes behind a number of whole cache lines at p end in the line that they begin in.
TSR_INLINE bool ends_within_line(const uint8_t* p, int n) {
    return reinterpret_cast<uintptr_t>(p) % 64 + static_cast<size_t>(n) < 64;
}
/// The cache lines of n bytes of each of R groups from p on. A partial last line is skipped: the next call
/// prefetches it, and a duplicate costs an issue slot. All groups lie in lines as the first one does where a
/// group is a number of whole lines; elsewhere some lines are missed.
template <int R, auto prefetch_line>
TSR_INLINE void prefetch_lines(const uint8_t* p, int64_t group_bytes, int n) {
    const int whole = n / 64 * 64;
    TSR_UNROLL
    for (int r = 0; r < R; r++) {
        TSR_UNROLL
        for (int line = 0; line < whole; line += 64) prefetch_line(p + r * group_bytes + line);
    }
    if (ends_within_line(p, n - whole)) return;
    TSR_UNROLL
    for (int r = 0; r < R; r++) prefetch_line(p + r * group_bytes + whole);
}

/// Leaves prefetching to the processor.
struct HardwarePrefetch {
    TSR_INLINE void start(HardwarePrefetch&, const PrefetchPlan&) {}
    TSR_INLINE void open_unit(HardwarePrefetch&, const uint8_t*, int64_t) {}
    TSR_INLINE void open_block(const HardwarePrefetch&, const uint8_t*, int64_t, int) {}
};

/// A unit's head when it is opened, then block by block. kAlwaysL1: without a check whether L1 is wanted;
/// where it is not, the unit's own lines are prefetched, which is harmless, and takes fewer registers.
template <class F, int R, bool kAlwaysL1 = false>
struct BlockPrefetch {
    PrefetchPlan plan;
    const uint8_t *l1_at, *l2_at;  // prefetched for the first group while this unit is read; or null

    TSR_INLINE void start(BlockPrefetch& p, const PrefetchPlan& plan) { p.plan = plan; }
    TSR_INLINE void open_unit(BlockPrefetch& p, const uint8_t* unit, int64_t group_bytes) {
        p.l2_at = PrefetchPlan::ahead(p.plan, unit, p.plan.l2);
        p.l1_at = PrefetchPlan::ahead(p.plan, unit, p.plan.l1);
        if (kAlwaysL1 && !p.l1_at) p.l1_at = unit;
        prefetch_part(p, unit, group_bytes, 0, F::kSuper ? F::kHeadBytes : F::kUnitBytes);
    }
    TSR_INLINE void open_block(const BlockPrefetch& p, const uint8_t* unit, int64_t group_bytes, int b) {
        if constexpr (F::kSuper) prefetch_part(p, unit, group_bytes, codes_at<F>(b), 32 * F::kBits);
    }
    /// As many bytes of each group as the n at `at` of the unit.
    TSR_INLINE void prefetch_part(const BlockPrefetch& p, const uint8_t* unit, int64_t group_bytes, int at,
                                  int n) {
        if constexpr (kAlwaysL1) {
            // In this spelling, as kernels_bench has it (packed_gemm, tok:8).
            const int64_t on = p.l1_at - unit;
            prefetch_lines<R, prefetch_l1>(unit + at + on, group_bytes, n);
            if (p.l2_at) prefetch_lines<R, prefetch_l2>(unit + at + (p.l2_at - unit), group_bytes, n);
        } else {
            if (p.l1_at) prefetch_lines<R, prefetch_l1>(p.l1_at + at, group_bytes, n);
            if (p.l2_at) prefetch_lines<R, prefetch_l2>(p.l2_at + at, group_bytes, n);
        }
    }
};

/// Line by line, interleaved with the dot products: issuing all of a block's prefetches at once fills the
/// line-fill buffers and lowers bandwidth (0.90 to 0.98 of it for Q8_0 on Zen 5).
template <class F, int R>
struct LinePrefetch {
    /// Bytes of a unit that fall to a block, and cache lines of these.
    static constexpr int kBlockBytes = F::kUnitBytes / F::kBlocks, kLines = (kBlockBytes + 63) / 64;
    static_assert(F::kUnitBytes % F::kBlocks == 0);
    PrefetchPlan plan;
    const uint8_t *l1_at, *l2_at;

    TSR_INLINE void start(LinePrefetch& p, const PrefetchPlan& plan) { p.plan = plan; }
    TSR_INLINE void open_unit(LinePrefetch& p, const uint8_t* unit, int64_t group_bytes) {
        if constexpr (R == 2) {
            if (const uint8_t* line = PrefetchPlan::ahead(p.plan, unit, p.plan.first_line)) {
                prefetch_l1(line);
                prefetch_l1(line + group_bytes);
            }
        }
        p.l2_at = PrefetchPlan::ahead(p.plan, unit, p.plan.l2);
        p.l1_at = PrefetchPlan::ahead(p.plan, unit, p.plan.l1);
    }
    TSR_INLINE void open_block(const LinePrefetch&, const uint8_t*, int64_t, int) {}
    /// Before n_operands of block b from group g of four k on are loaded for n groups of rows from `group`
    /// on: their lines of a block's share.
    TSR_INLINE void between(const LinePrefetch& p, int64_t group_bytes, int b, int g, int n_operands,
                            int group, int n) {
        TSR_UNROLL
        for (int i = 0; i < kLines; i++) {
            const int before = 8 * i / kLines;
            if (before < g || before >= g + n_operands) continue;
            if (p.l1_at) line<prefetch_l1>(p.l1_at + b * kBlockBytes, group_bytes, i, group, n);
            if (p.l2_at) line<prefetch_l2>(p.l2_at + b * kBlockBytes, group_bytes, i, group, n);
        }
    }
    /// Line i of a block's share at p, unless the next share begins in it.
    template <auto prefetch_line>
    TSR_INLINE void line(const uint8_t* p, int64_t group_bytes, int i, int group, int n) {
        const int left = kBlockBytes - 64 * i;
        if (left < 64 && ends_within_line(p, left)) return;
        TSR_UNROLL
        for (int at = group; at < group + n; at++) prefetch_line(p + at * group_bytes + 64 * i);
    }
};

}  // namespace
}  // namespace tessera::kernels
