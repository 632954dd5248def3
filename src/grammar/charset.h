#pragma once
// Sets of Unicode code points, and their spelling as UTF-8 byte ranges.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace tessera::grammar {

constexpr uint32_t kMaxCodePoint = 0x10FFFF;

/// Both ends are included.
struct CharRange {
    uint32_t lo, hi;
    bool operator==(const CharRange&) const = default;
};

/// A set of code points as sorted, disjoint, non-adjacent ranges.
class CharSet {
  public:
    CharSet() = default;
    CharSet(std::initializer_list<CharRange> ranges);
    static CharSet any() { return {{0, kMaxCodePoint}}; }

    void add(uint32_t lo, uint32_t hi);
    void add(const CharSet& other);
    /// All code points up to U+10FFFF that are not in this set.
    CharSet complement() const;
    bool contains(uint32_t code_point) const;
    bool empty() const { return ranges_.empty(); }
    std::span<const CharRange> ranges() const { return ranges_; }
    bool operator==(const CharSet&) const = default;

  private:
    std::vector<CharRange> ranges_;
};

/// A sequence of one to four byte ranges.
struct ByteSequence {
    struct Range {
        uint8_t lo, hi;
        bool operator==(const Range&) const = default;
    };
    uint8_t n = 0;
    std::array<Range, 4> bytes{};
};

/// Appends sequences that together match exactly the UTF-8 encodings of lo..hi without surrogates. After
/// equal prefixes, byte ranges are equal or disjoint, also between calls with disjoint ranges.
void append_utf8(uint32_t lo, uint32_t hi, std::vector<ByteSequence>& out);

}  // namespace tessera::grammar
