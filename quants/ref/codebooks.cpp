// The codebooks, expanded at compile time from quants/tables/*.inc.
//
// A word is a group of n digits, each standing for one of L levels; read as numbers in base L (digit 0 the
// least significant) the words of every codebook rise. So a codebook is stored as the gaps between its
// members, one base64 digit a member: digit v > 0 means that the next member is v larger (the first counts
// from -1), digit 0 ('A') adds 63 without naming a member. The members are part of the formats
// (ggml/src/ggml-common.h of ggml-org/llama.cpp).
#include "quants/ref/codebooks.h"

#include <string_view>

namespace tessera::quants {

namespace {

constexpr int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : 63;
}

/// Fails to compile (by running past an array's end) unless exactly `words` members are named.
template <int words, int n, size_t n_levels>
consteval Grid<words, n> expand(std::string_view gaps, const int8_t (&levels)[n_levels]) {
    Grid<words, n> grid{};
    size_t member = 0;
    int number = -1;
    for (const char c : gaps) {
        const int gap = base64_digit(c);
        number += gap ? gap : 63;
        if (gap == 0) continue;
        int rest = number;
        for (int8_t& value : grid.at(member++)) {
            value = levels[static_cast<size_t>(rest) % n_levels];
            rest /= static_cast<int>(n_levels);
        }
    }
    if (member != words) throw "a codebook has too few members";
    return grid;
}

constexpr int8_t kLevelsIq1[] = {-1, 0, 1};
constexpr int8_t kLevelsIq2[] = {8, 25, 43};
constexpr int8_t kLevelsIq3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kLevelsIq3S[] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

constexpr Grid<256, 8> kGridIq2Xxs = expand<256, 8>(
#include "quants/tables/iq2xxs.inc"
    , kLevelsIq2);

constexpr Grid<512, 8> kGridIq2Xs = expand<512, 8>(
#include "quants/tables/iq2xs.inc"
    , kLevelsIq2);

constexpr Grid<1024, 8> kGridIq2S = expand<1024, 8>(
#include "quants/tables/iq2s.inc"
    , kLevelsIq2);

constexpr Grid<256, 4> kGridIq3Xxs = expand<256, 4>(
#include "quants/tables/iq3xxs.inc"
    , kLevelsIq3Xxs);

constexpr Grid<512, 4> kGridIq3S = expand<512, 4>(
#include "quants/tables/iq3s.inc"
    , kLevelsIq3S);

constexpr Grid<2048, 8> kGridIq1 = expand<2048, 8>(
#include "quants/tables/iq1.inc"
    , kLevelsIq1);

}  // namespace tessera::quants
