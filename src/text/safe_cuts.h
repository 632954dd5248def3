#pragma once
// Where a long text may be cut without changing how SentencePiece BPE encodes it; internal to src/text.
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace tessera::text {

/// BPE only ever holds single characters and pieces of the vocabulary, and which merge comes next among two
/// neighbourhoods changes neither. So between two characters that are adjacent in no piece nothing is ever
/// merged, and encoding both sides apart gives the same ids as encoding them together.
class SafeCuts {
  public:
    /// Registers a piece that merging may form; spaces as U+2581. Pieces that are not UTF-8 never match text.
    void add_piece(std::string_view piece);
    /// After the last piece.
    void finish();

    /// Where the first safe cut of a non-empty valid UTF-8 text is: in 1..text.size().
    size_t first(std::string_view text) const;

  private:
    bool adjacent(uint32_t first, uint32_t second) const;

    std::vector<uint64_t> pairs_;  // first code point << 32 | second, ascending
    std::bitset<128 * 128> ascii_pairs_;
};

}  // namespace tessera::text
