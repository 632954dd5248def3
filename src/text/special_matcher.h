#pragma once
// Finds the spellings of special tokens in text.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "src/text/vocab.h"

namespace tessera::text {

/// A byte trie over the spellings of Control, Unknown and UserDefined tokens of up to kMaxSpellingBytes
/// (longer ones are unknown in practice, and would slow down every text). Immutable; thread-safe.
class SpecialMatcher {
  public:
    static constexpr size_t kMaxSpellingBytes = 512;

    explicit SpecialMatcher(const Vocab& vocab);

    struct Match {
        size_t pos = 0;
        size_t n_bytes = 0;  ///< 0: nothing found
        int32_t id = kNoToken;
    };

    /// The leftmost match at or after `from`, and the longest one there. UserDefined tokens always match, the
    /// others with `parse_special`. O(bytes passed x longest spelling).
    Match find(std::string_view text, size_t from, bool parse_special) const;

  private:
    struct Node {
        int32_t first_child = -1, next_sibling = -1;  // indices in nodes_
        int32_t id = kNoToken;                        // the token spelled up to here
        int32_t user_id = kNoToken;                   // the same if it is UserDefined
        char byte = 0;
    };

    void insert(std::string_view spelling, int32_t id, bool user_defined);
    int32_t child(int32_t node, char byte) const;
    Match longest_at(std::string_view text, size_t pos, bool parse_special) const;

    std::vector<Node> nodes_;
    std::array<int32_t, 256> roots_;  // node of each first byte, -1 for none
};

}  // namespace tessera::text
