// Sets of code points as merged ranges. For UTF-8, a range is split where the byte patterns change: at the
// encoding lengths, at the surrogates, and where a leading byte does not cover all its continuations. Next:
// compile.cpp and char_dfa.cpp, which use both.
#include "src/grammar/charset.h"

#include <algorithm>

namespace tessera::grammar {

CharSet::CharSet(std::initializer_list<CharRange> ranges) {
    for (const CharRange& range : ranges) add(range.lo, range.hi);
}

void CharSet::add(uint32_t lo, uint32_t hi) {
    auto first = std::lower_bound(ranges_.begin(), ranges_.end(), lo,
                                  [](const CharRange& range, uint32_t at) { return range.hi + 1 < at; });
    auto last = first;
    while (last != ranges_.end() && last->lo <= hi + 1) {
        lo = std::min(lo, last->lo);
        hi = std::max(hi, last->hi);
        ++last;
    }
    if (first == last) {
        ranges_.insert(first, {lo, hi});
        return;
    }
    *first = {lo, hi};
    ranges_.erase(first + 1, last);
}

void CharSet::add(const CharSet& other) {
    for (const CharRange& range : other.ranges_) add(range.lo, range.hi);
}

CharSet CharSet::complement() const {
    CharSet result;
    uint32_t next = 0;
    for (const CharRange& range : ranges_) {
        if (range.lo > next) result.ranges_.push_back({next, range.lo - 1});
        next = range.hi + 1;
    }
    if (next <= kMaxCodePoint) result.ranges_.push_back({next, kMaxCodePoint});
    return result;
}

bool CharSet::contains(uint32_t code_point) const {
    const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), code_point,
                                     [](const CharRange& range, uint32_t c) { return range.hi < c; });
    return at != ranges_.end() && at->lo <= code_point;
}

namespace {

uint8_t encode(uint32_t c, uint8_t out[4]) {
    if (c < 0x80) {
        out[0] = static_cast<uint8_t>(c);
        return 1;
    }
    const uint8_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (int i = n - 1; i > 0; i--, c >>= 6) out[i] = static_cast<uint8_t>(0x80 | (c & 0x3F));
    constexpr uint8_t kLead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    out[0] = static_cast<uint8_t>(kLead[n] | c);
    return n;
}

/// lo..hi have the same length in bytes.
void append_equal_length(uint32_t lo, uint32_t hi, uint8_t n, std::vector<ByteSequence>& out) {
    for (int tail = 1; tail < n; tail++) {
        const uint32_t mask = (1u << (6 * tail)) - 1;
        if ((lo & ~mask) == (hi & ~mask)) continue;
        if (lo & mask) {
            append_equal_length(lo, lo | mask, n, out);
            append_equal_length((lo | mask) + 1, hi, n, out);
            return;
        }
        if ((hi & mask) != mask) {
            append_equal_length(lo, (hi & ~mask) - 1, n, out);
            append_equal_length(hi & ~mask, hi, n, out);
            return;
        }
    }
    uint8_t from[4], to[4];
    ByteSequence sequence;
    sequence.n = encode(lo, from);
    encode(hi, to);
    for (size_t i = 0; i < n; i++) sequence.bytes[i] = {from[i], to[i]};
    out.push_back(sequence);
}

}  // namespace

void append_utf8(uint32_t lo, uint32_t hi, std::vector<ByteSequence>& out) {
    constexpr struct {
        uint32_t lo, hi;
        uint8_t n;
    } kLengths[] = {
        {0, 0x7F, 1}, {0x80, 0x7FF, 2}, {0x800, 0xD7FF, 3}, {0xE000, 0xFFFF, 3}, {0x10000, kMaxCodePoint, 4}};
    for (const auto& part : kLengths) {
        const uint32_t from = std::max(lo, part.lo), to = std::min(hi, part.hi);
        if (from <= to) append_equal_length(from, to, part.n, out);
    }
}

}  // namespace tessera::grammar
