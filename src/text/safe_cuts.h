#pragma once
// Positions at which a long text may be cut without changing its SentencePiece BPE encoding; internal to
// src/text.
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::text {

/// BPE symbols are single characters or pieces of the vocabulary, and the order of merges in separate regions
/// does not matter. So nothing ever merges across two characters that are adjacent in no piece, and encoding
/// both sides separately gives the same ids.
class SafeCuts {
  public:
    /// Registers a piece that merging may form, with spaces as U+2581. Pieces that are not UTF-8 never match
    /// text.
    void add_piece(std::string_view piece);
    /// Call after the last piece.
    void finish();

    /// Byte offset of the first safe cut of a non-empty valid UTF-8 text, in 1..text.size().
    size_t first(std::string_view text) const;

  private:
    bool adjacent(uint32_t first, uint32_t second) const;

    std::vector<uint64_t> pairs_;  // first code point << 32 | second, ascending
    std::bitset<128 * 128> ascii_pairs_;
};

}  // namespace tessera::text
