#pragma once
// The merge loop of all kinds of byte-pair encoding; internal to src/text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tessera::text {

/// A range of the text that is one symbol so far.
struct Symbol {
    uint32_t begin = 0, n_bytes = 0;
    /// Token id. BPE also numbers merges that are no tokens, from the vocabulary's size on. -1: a character
    /// without a token.
    int32_t id = -1;
};

/// The merge of two neighbours. The lowest order merges first, the leftmost one among equals.
struct Merge {
    static constexpr uint32_t kNever = std::numeric_limits<uint32_t>::max();
    uint32_t order = kNever;
    int32_t id = -1;
};

/// Queue of positions to merge: lowest order first, then leftmost. Positions of one order mostly arrive in
/// ascending order and are kept as a list, which becomes a heap at the first exception. Runs of one character
/// thus cost constant time per position, and all others at most logarithmic time.
class MergeQueue {
  public:
    struct Entry {
        uint32_t order, at;
    };

    void clear();
    void push(uint32_t order, uint32_t at);
    /// Removes the next entry; false if there is none.
    bool pop(Entry& entry);

  private:
    struct Bucket {
        uint32_t order;
        bool is_heap = false, is_queued = false;
        size_t head = 0;  // of a list: number of entries already popped
        std::vector<uint32_t> positions{};
    };

    Bucket& bucket_of(uint32_t order);

    std::vector<Bucket> buckets_;
    std::unordered_map<uint32_t, uint32_t> index_;  // order -> index in buckets_
    std::priority_queue<std::pair<uint32_t, uint32_t>, std::vector<std::pair<uint32_t, uint32_t>>,
                        std::greater<>>
        orders_;         // (order, index of its bucket) of non-empty buckets
    uint32_t last_ = 0;  // index of the bucket used last
};

/// Working memory of one thread.
class MergeLoop {
  public:
    /// Merges until no pair merges. `lookup(left, right)` gives the Merge of two neighbouring symbols and
    /// must be a pure function. O(n log n), O(n) for runs of one character. Up to 2^32 - 2 symbols.
    template <class Lookup>
    void run(std::vector<Symbol>& symbols, Lookup&& lookup) {
        if (symbols.size() < 2) return;
        if (symbols.size() <= kFew)
            run_few(symbols, lookup);
        else
            run_many(symbols, lookup);
    }

    /// Frees memory that only unusually long texts need.
    void trim();

  private:
    static constexpr size_t kFew = 160;  // up to this length scanning all pairs is faster than a queue
    static constexpr uint32_t kEnd = std::numeric_limits<uint32_t>::max();
    static constexpr size_t kKeep = size_t{1} << 16;

    template <class Lookup>
    void run_few(std::vector<Symbol>& symbols, Lookup& lookup) {
        size_t n = symbols.size();
        orders_.resize(n);
        ids_.resize(n);
        const auto look = [&](size_t at) {
            const Merge merge = lookup(symbols[at], symbols[at + 1]);
            orders_[at] = merge.order;
            ids_[at] = merge.id;
        };
        for (size_t i = 0; i + 1 < n; i++) look(i);
        while (n > 1) {
            uint32_t lowest = Merge::kNever;
            for (size_t i = 0; i + 1 < n; i++) lowest = std::min(lowest, orders_[i]);
            if (lowest == Merge::kNever) break;
            size_t at = 0;
            while (orders_[at] != lowest) at++;
            symbols[at].n_bytes += symbols[at + 1].n_bytes;
            symbols[at].id = ids_[at];
            for (size_t i = at + 1; i + 1 < n; i++) {
                symbols[i] = symbols[i + 1];
                orders_[i] = orders_[i + 1];
                ids_[i] = ids_[i + 1];
            }
            n--;
            if (at > 0) look(at - 1);
            if (at + 1 < n) look(at);
        }
        symbols.resize(n);
    }

    template <class Lookup>
    void run_many(std::vector<Symbol>& symbols, Lookup& lookup) {
        const auto n = static_cast<uint32_t>(symbols.size());
        orders_.assign(n, Merge::kNever);
        ids_.resize(n);
        links_.resize(n);
        queue_.clear();
        for (uint32_t i = 0; i < n; i++) links_[i] = {i == 0 ? kEnd : i - 1, i + 1 < n ? i + 1 : kEnd};
        const auto look = [&](uint32_t at) {
            const uint32_t next = links_[at].next;
            const Merge merge = next == kEnd ? Merge{} : lookup(symbols[at], symbols[next]);
            orders_[at] = merge.order;
            ids_[at] = merge.id;
            if (merge.order != Merge::kNever) queue_.push(merge.order, at);
        };
        for (uint32_t i = 0; i + 1 < n; i++) look(i);
        for (MergeQueue::Entry entry; queue_.pop(entry);) {
            const uint32_t at = entry.at;
            if (orders_[at] != entry.order)
                continue;  // stale: one of the two symbols has merged with another
            const uint32_t gone = links_[at].next, next = links_[gone].next;
            symbols[at].n_bytes += symbols[gone].n_bytes;
            symbols[at].id = ids_[at];
            symbols[gone].n_bytes = 0;
            orders_[gone] = Merge::kNever;
            links_[at].next = next;
            if (next != kEnd) links_[next].previous = at;
            if (links_[at].previous != kEnd) look(links_[at].previous);
            look(at);
        }
        size_t kept = 0;
        for (uint32_t i = 0; i != kEnd; i = links_[i].next) symbols[kept++] = symbols[i];
        symbols.resize(kept);
    }

    struct Link {
        uint32_t previous, next;
    };

    std::vector<uint32_t> orders_;  // order of the merge of each symbol with its right neighbour
    std::vector<int32_t> ids_;      // and the id of the result
    std::vector<Link> links_;
    MergeQueue queue_;
};

}  // namespace tessera::text
