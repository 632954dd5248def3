// The pool of recurrent state. Sequences (sequence.cpp) read one slot and write another in each pass, and
// keep some earlier slots as checkpoints; the prefix cache (prefix_tree.cpp) keeps checkpoints of texts.
#include "src/kv/state_pool.h"

#include <utility>

namespace tessera::kv {

StateLayout StateLayout::create(std::span<const int64_t> floats) {
    StateLayout layout;
    for (const int64_t n : floats) {
        layout.layers.push_back({layout.slot_bytes / sizeof(float), n});
        layout.slot_bytes += Arena::padded(static_cast<size_t>(n) * sizeof(float));
    }
    return layout;
}

uint64_t StatePool::bytes(const StateLayout& layout, int64_t n_slots) {
    return static_cast<uint64_t>(n_slots + 1) * layout.slot_bytes;
}

Result<StatePool> StatePool::create(StateLayout layout, int64_t n_slots) {
    StatePool pool;
    pool.layout_ = std::move(layout);
    if (pool.layout_.slot_bytes == 0) return pool;
    TSR_TRY(pool.memory_, Buffer::create(bytes(pool.layout_, n_slots), "the state of recurrent layers"));
    pool.n_slots_ = n_slots;
    pool.free_.reserve(static_cast<size_t>(n_slots));
    pool.owners_.resize(static_cast<size_t>(n_slots) + 1);
    pool.owners_.back() = 1;
    for (int64_t i = n_slots; i-- > 0;) pool.free_.push_back(pool.slot(i));
    return pool;
}

float* StatePool::take() {
    if (free_.empty()) return nullptr;
    float* state = free_.back();
    free_.pop_back();
    owners_[index(state)] = 1;
    return state;
}

void StatePool::release(float* state) {
    int32_t& owners = owners_[index(state)];
    TSR_CHECK(owners > 0);
    if (--owners == 0) free_.push_back(state);
}

}  // namespace tessera::kv
