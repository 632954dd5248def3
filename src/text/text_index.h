#pragma once
// Spellings to ids, as a flat table; internal to src/text.
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

/// Of words and spellings: one multiplication for each eight bytes.
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

/// The texts are views: whoever owns them outlives the index.
class TextIndex {
  public:
    /// Makes room for `n` texts in all; before the first add().
    void reserve(size_t n) { slots_.resize(std::bit_ceil(n * 2 + 2)); }

    /// How many texts ahead to ask for, of many that are added in turn.
    static constexpr int32_t kAhead = 16;
    /// Asks for the memory of a text that is added or looked for soon: of many, each would wait for its own.
    /// Always inline: gcc 12 leaves out calls of a function that only fetches.
    [[gnu::always_inline]] void prefetch(std::string_view text) const {
        if (!slots_.empty()) __builtin_prefetch(&slots_[first_place(text)]);
    }

    /// The first id of a text stays. At most as many texts as were reserved.
    void add(std::string_view text, int32_t id) {
        Slot& slot = slots_[place_of(text)];
        if (slot.text.data() == nullptr) slot = {text.empty() ? std::string_view("") : text, id};
    }

    /// -1 when absent.
    int32_t find(std::string_view text) const { return slots_.empty() ? -1 : slots_[place_of(text)].id; }

  private:
    struct Slot {
        std::string_view text;  // its pointer is null in a free slot
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

    PageVector<Slot> slots_;  // a power of two, at most half of them taken
};

}  // namespace tessera::text
