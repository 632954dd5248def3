#pragma once
// The table of merges: which pairs of symbols merge, their results and order. Internal to src/text.
#include <bit>
#include <cstdint>

#include "common/pages.h"
#include "src/text/merge_loop.h"
#include "src/text/text_index.h"

namespace tessera::text {

/// An open-addressing table. Immutable once it is filled, and then thread-safe.
class MergeTable {
  public:
    /// Allocates room for `n` pairs in all; call before the first add().
    void reserve(size_t n) { slots_.resize(std::bit_ceil(n + n / 2 + n / 10 + 2)); }

    /// Prefetches the slot of a pair that is added soon, to overlap the cache misses of many.
    [[gnu::always_inline]] void prefetch(int32_t left, int32_t right) const {
        __builtin_prefetch(&slots_[first_place(key_of(left, right))]);
    }

    /// Keeps the first order of a pair. At most as many pairs as were reserved; ids are not negative.
    void add(int32_t left, int32_t right, Merge merge) {
        Slot& slot = slots_[place_of(key_of(left, right))];
        if (slot.merge.order == Merge::kNever) slot = {key_of(left, right), merge};
    }

    /// Order kNever if the pair does not merge.
    Merge find(int32_t left, int32_t right) const { return slots_[place_of(key_of(left, right))].merge; }

  private:
    struct Slot {
        uint64_t key = 0;
        Merge merge;
    };

    static uint64_t key_of(int32_t left, int32_t right) {
        return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
    }

    size_t first_place(uint64_t key) const {
        const uint64_t hash = detail::mix(key ^ 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93);
        return static_cast<size_t>(hash) & (slots_.size() - 1);
    }

    size_t place_of(uint64_t key) const {
        const size_t mask = slots_.size() - 1;
        size_t at = first_place(key);
        while (slots_[at].merge.order != Merge::kNever && slots_[at].key != key) at = (at + 1) & mask;
        return at;
    }

    PageVector<Slot> slots_;  // a power of two, at most 5/8 occupied
};

}  // namespace tessera::text
