#pragma once
// An open-addressing table from spellings to ids; internal to src/text.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "common/pages.h"

namespace tessera::text {

namespace detail {

inline uint64_t mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t load(const char* bytes, size_t n_bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, n_bytes);
    return word;
}

}  // namespace detail

/// A hash for words and spellings, with one multiplication per eight bytes.
inline uint64_t hash_text(std::string_view text) {
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;
    uint64_t hash = text.size() * kOdd;
    const char* at = text.data();
    size_t left = text.size();
    for (; left >= 8; at += 8, left -= 8) hash = detail::mix(hash ^ detail::load(at, 8), kOdd);
    uint64_t tail = 0;
    if (left >= 4)
        tail = detail::load(at, 4) << 32 | detail::load(at + left - 4, 4);
    else if (left > 0)
        tail = static_cast<uint64_t>(static_cast<uint8_t>(at[0])) << 16 |
               static_cast<uint64_t>(static_cast<uint8_t>(at[left / 2])) << 8 |
               static_cast<uint8_t>(at[left - 1]);
    return detail::mix(hash ^ tail, kOdd * 3);
}

/// Holds views of the texts, whose owner must outlive the index.
class TextIndex {
  public:
    /// Allocates room for `n` texts in all; call before the first add().
    void reserve(size_t n) { slots_.resize(std::bit_ceil(n * 2 + 2)); }

    /// Prefetch distance in texts when many are added.
    static constexpr int32_t kAhead = 16;
    /// Prefetches the slot of a text that is added or looked up soon, to overlap the cache misses of many.
    /// Always inline, since gcc 12 removes calls of functions that only prefetch.
    [[gnu::always_inline]] void prefetch(std::string_view text) const {
        if (!slots_.empty()) __builtin_prefetch(&slots_[first_place(text)]);
    }

    /// Keeps the first id of a text. At most as many texts as were reserved.
    void add(std::string_view text, int32_t id) {
        Slot& slot = slots_[place_of(text)];
        if (slot.text.data() == nullptr) slot = {text.empty() ? std::string_view("") : text, id};
    }

    /// -1 if absent.
    int32_t find(std::string_view text) const { return slots_.empty() ? -1 : slots_[place_of(text)].id; }

  private:
    struct Slot {
        std::string_view text;  // null pointer in a free slot
        int32_t id = -1;
    };

    size_t first_place(std::string_view text) const {
        return static_cast<size_t>(hash_text(text)) & (slots_.size() - 1);
    }

    size_t place_of(std::string_view text) const {
        const size_t mask = slots_.size() - 1;
        size_t at = first_place(text);
        while (slots_[at].text.data() != nullptr && slots_[at].text != text) at = (at + 1) & mask;
        return at;
    }

    PageVector<Slot> slots_;  // a power of two, at most half occupied
};

}  // namespace tessera::text
