#pragma once
// A cache of the ids of recent words, as words repeat in prose. Internal to src/text.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "common/pages.h"
#include "src/text/text_index.h"

namespace tessera::text {

/// Direct-mapped: a newer word replaces an older one, so that the size is fixed (2 MiB, from the first word
/// on). Not thread-safe.
class WordCache {
  public:
    static constexpr size_t kMaxWordBytes = 30, kMaxIds = 8;

    /// The slot of a word, which has 1 to kMaxWordBytes bytes.
    class Entry {
      public:
        bool holds(std::string_view word) const {
            return n_bytes_ == word.size() && std::memcmp(word_.data(), word.data(), word.size()) == 0;
        }
        std::span<const int32_t> ids() const { return {ids_.data(), n_ids_}; }
        /// Stores the word in the slot, unless it has too many ids.
        void set(std::string_view word, std::span<const int32_t> ids) {
            if (ids.size() > kMaxIds) return;
            n_bytes_ = static_cast<uint8_t>(word.size());
            n_ids_ = static_cast<uint8_t>(ids.size());
            std::copy(word.begin(), word.end(), word_.begin());
            std::copy(ids.begin(), ids.end(), ids_.begin());
        }

      private:
        std::array<char, kMaxWordBytes> word_{};
        uint8_t n_bytes_ = 0, n_ids_ = 0;
        std::array<int32_t, kMaxIds> ids_{};
    };
    static_assert(sizeof(Entry) == 64);

    Entry& at(std::string_view word) {
        if (entries_.empty()) entries_.resize(kEntries);
        return entries_[static_cast<size_t>(hash_text(word)) % kEntries];
    }

  private:
    static constexpr size_t kEntries = size_t{1} << 15;
    PageVector<Entry> entries_;
};

}  // namespace tessera::text
