// The queue of the merge loop. Orders are kept in a heap, the positions of each in a bucket of its own: a
// text has far fewer orders than positions. Next: bpe.cpp and spm.cpp, which define the merges.
#include "src/text/merge_loop.h"

namespace tessera::text {

void MergeQueue::clear() {
    buckets_.clear();
    index_.clear();
    orders_ = {};
    last_ = 0;
}

MergeQueue::Bucket& MergeQueue::bucket_of(uint32_t order) {
    if (last_ < buckets_.size() && buckets_[last_].order == order) return buckets_[last_];
    const auto [it, is_new] = index_.try_emplace(order, static_cast<uint32_t>(buckets_.size()));
    if (is_new) buckets_.push_back({.order = order});
    last_ = it->second;
    return buckets_[last_];
}

void MergeQueue::push(uint32_t order, uint32_t at) {
    Bucket& bucket = bucket_of(order);
    std::vector<uint32_t>& positions = bucket.positions;
    if (!bucket.is_queued) {
        orders_.emplace(order, last_);
        bucket.is_queued = true;
    }
    const bool ascending = positions.empty() || positions.back() <= at;
    if (!bucket.is_heap && !ascending) {
        positions.erase(positions.begin(), positions.begin() + static_cast<ptrdiff_t>(bucket.head));
        std::make_heap(positions.begin(), positions.end(), std::greater<>());
        bucket.is_heap = true;
    }
    positions.push_back(at);
    if (bucket.is_heap) std::push_heap(positions.begin(), positions.end(), std::greater<>());
}

bool MergeQueue::pop(Entry& entry) {
    if (orders_.empty()) return false;
    Bucket& bucket = buckets_[orders_.top().second];
    std::vector<uint32_t>& positions = bucket.positions;
    entry.order = bucket.order;
    if (bucket.is_heap) {
        std::pop_heap(positions.begin(), positions.end(), std::greater<>());
        entry.at = positions.back();
        positions.pop_back();
    } else {
        entry.at = positions[bucket.head++];
    }
    if (bucket.is_heap ? positions.empty() : bucket.head == positions.size()) {
        positions.clear();
        bucket.head = 0;
        bucket.is_heap = bucket.is_queued = false;
        orders_.pop();
    }
    return true;
}

void MergeLoop::trim() {
    if (links_.capacity() <= kKeep) return;
    *this = MergeLoop();
}

}  // namespace tessera::text
