// Lookups in the tables of unicode_tables.inc, which make_unicode_tables.py generates. Next: wordpiece.cpp.
#include "src/text/unicode.h"

#include <algorithm>
#include <span>

namespace tessera::text::unicode {

namespace {

struct Range {
    uint32_t first, last;
};

struct BareForm {
    uint32_t from;
    Form to;
};

/// Every `step`th code point from first to last maps to itself plus `delta`.
struct LowerRun {
    uint32_t first, last, step;
    int32_t delta;
};

#include "src/text/unicode_tables.inc"

bool contains(std::span<const Range> ranges, uint32_t c) {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), c,
                         [](uint32_t value, const Range& range) { return value < range.first; });
    return after != ranges.begin() && c <= std::prev(after)->last;
}

// Hangul syllables are composed by arithmetic: The Unicode Standard, section 3.12.
constexpr uint32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kNSyllables = 11172, kNVowels = 21, kNTails = 28;

}  // namespace

bool is_space(uint32_t c) {
    return (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

bool is_punctuation(uint32_t c) {
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    return contains(kPunctuation, c);
}

bool is_control(uint32_t c) { return c < 0x80 ? c < ' ' || c == 0x7F : contains(kControls, c); }

bool is_mark(uint32_t c) { return c >= 0x80 && contains(kMarks, c); }

bool is_ideograph(uint32_t c) {
    constexpr Range kIdeographs[] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                     {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                     {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    return contains(kIdeographs, c);
}

Form bare_form(uint32_t c) {
    if (c < 0x80) return {c};
    if (c - kSyllables < kNSyllables) {
        const uint32_t index = c - kSyllables, tail = index % kNTails;
        return {kLeads + index / (kNVowels * kNTails), kVowels + index / kNTails % kNVowels,
                tail > 0 ? kTails + tail : 0};
    }
    const auto at = std::lower_bound(std::begin(kBareForms), std::end(kBareForms), c,
                                     [](const BareForm& form, uint32_t value) { return form.from < value; });
    return at != std::end(kBareForms) && at->from == c ? at->to : Form{c};
}

uint32_t lower(uint32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
    const auto after =
        std::upper_bound(std::begin(kLowerRuns), std::end(kLowerRuns), c,
                         [](uint32_t value, const LowerRun& run) { return value < run.first; });
    // Runs with a step of two may be interleaved.
    for (auto run = after; run != std::begin(kLowerRuns) && after - run < 2;) {
        --run;
        if (c <= run->last && (c - run->first) % run->step == 0)
            return static_cast<uint32_t>(static_cast<int32_t>(c) + run->delta);
    }
    return c;
}

}  // namespace tessera::text::unicode
