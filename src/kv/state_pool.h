#pragma once
// Memory of recurrent layers: slots of float32 state. A slot has the state of all recurrent layers of one
// sequence at one position. The pool owns all slots; sequences and the prefix cache hold references to them.
#include <cstdint>
#include <span>
#include <vector>

#include "common/arena.h"
#include "common/expected.h"
#include "ggml-like/backend.h"

namespace tessera::kv {

/// Where the state of each layer lies in a slot. The parts of the layers begin at cache lines.
struct StateLayout {
    std::vector<StateLayer> layers;  // [n_layer]
    size_t slot_bytes = 0;           // a multiple of a cache line; 0 = no layer is recurrent

    /// Layer i has floats[i] floats of state, or none.
    static StateLayout create(std::span<const int64_t> floats);
};

/// The state of a sequence after its first n_tok tokens.
struct Checkpoint {
    int64_t n_tok = 0;
    float* state = nullptr;  // a slot
};

class StatePool {
  public:
    /// n_slots slots for states, and one for the initial state; address space is reserved at once, memory is
    /// touched on use. A layout without state takes no memory. Errors: out of memory.
    static Result<StatePool> create(StateLayout layout, int64_t n_slots);
    /// Bytes of a pool of n_slots slots.
    static uint64_t bytes(const StateLayout& layout, int64_t n_slots);

    const StateLayout& layout() const { return layout_; }
    int64_t n_slots() const { return n_slots_; }
    int64_t n_free() const { return static_cast<int64_t>(free_.size()); }

    /// The state before the first token: zeros. It may be shared and released like a slot, and is never free.
    float* initial() { return slot(n_slots_); }
    /// Allocates a slot with one owner; null if none is free. Its content is arbitrary.
    float* take();
    /// Adds or removes an owner; a slot without owners is free. Owners must not write to a shared slot.
    void share(const float* state) { ++owners_[index(state)]; }
    void release(float* state);
    int32_t n_owners(const float* state) const { return owners_[index(state)]; }

  private:
    float* slot(int64_t i) { return memory_.as<float>() + static_cast<size_t>(i) * slot_floats(); }
    size_t slot_floats() const { return layout_.slot_bytes / sizeof(float); }
    size_t index(const float* state) const {
        return static_cast<size_t>(reinterpret_cast<const std::byte*>(state) - memory_.data()) /
               layout_.slot_bytes;
    }

    StateLayout layout_;
    Buffer memory_;
    int64_t n_slots_ = 0;
    std::vector<float*> free_;
    std::vector<int32_t> owners_;  // [n_slots + 1]; the pool itself owns the initial state
};

}  // namespace tessera::kv
