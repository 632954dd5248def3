#pragma once
// An activation that owns its memory, and a bitwise comparison of two activations.
#include <cstring>

#include "common/arena.h"
#include "ggml-like/act_layout.h"

namespace tessera {

/// An activation of n_tok rows that owns its memory.
struct OwnAct : ActBuffer {
    Arena arena;

    OwnAct(int64_t n, int64_t n_tok, bool floats, bool int8) {
        dim = n;
        needs_f32 = floats;
        needs_int8 = int8;
        ArenaSize size;
        allocate_act(*this, n_tok, size);
        arena = *Arena::create(size.bytes(), "an activation");
        allocate_act(*this, n_tok, arena);
    }
};

template <class T>
bool same(const T* a, const T* b, int64_t n) {
    return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(T)) == 0;
}

/// Bytes of the int8 activations of n_tok tokens.
inline bool same_image(const ActBuffer& a, const ActBuffer& b, int64_t n_tok) {
    const int64_t n = n_tok * a.dim;
    return same(a.q, b.q, n) && same(a.d, b.d, n / 32) && same(a.s, b.s, n / 32) &&
           same(a.sum16, b.sum16, n / 16) && same(a.sum8, b.sum8, n / 8);
}

}  // namespace tessera
