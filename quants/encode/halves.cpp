// Splits the words of the codebooks (quants/ref/codebooks.h) into numbers for the encoders' tables of costs.
#include "quants/encode/halves.h"

#include <algorithm>

#include "quants/ref/codebooks.h"

namespace tessera::quants {

namespace {

/// Digits are positions in the rising `levels`.
template <size_t words, size_t n, size_t n_levels>
std::array<WordHalves, words> split(const std::array<std::array<int8_t, n>, words>& grid,
                                    const int8_t (&levels)[n_levels]) {
    const auto number = [&](const int8_t* first) {
        size_t value = 0;
        for (size_t i = n / 2; i-- > 0;)
            value = value * n_levels +
                    static_cast<size_t>(std::find(levels, levels + n_levels, first[i]) - levels);
        return static_cast<uint8_t>(value);
    };
    std::array<WordHalves, words> halves;
    for (size_t i = 0; i < words; i++) halves[i] = {number(grid[i].data()), number(grid[i].data() + n / 2)};
    return halves;
}

constexpr int8_t kLevelsIq2[] = {8, 25, 43};
constexpr int8_t kLevelsIq3Xxs[] = {4, 12, 20, 28, 36, 44, 52, 62};
constexpr int8_t kLevelsIq3S[] = {1, 3, 5, 7, 9, 11, 13, 15};

}  // namespace

const WordHalves* halves_iq2_xxs() {
    static const auto halves = split(kGridIq2Xxs, kLevelsIq2);
    return halves.data();
}

const WordHalves* halves_iq2_xs() {
    static const auto halves = split(kGridIq2Xs, kLevelsIq2);
    return halves.data();
}

const WordHalves* halves_iq2_s() {
    static const auto halves = split(kGridIq2S, kLevelsIq2);
    return halves.data();
}

const WordHalves* halves_iq3_xxs() {
    static const auto halves = split(kGridIq3Xxs, kLevelsIq3Xxs);
    return halves.data();
}

const WordHalves* halves_iq3_s() {
    static const auto halves = split(kGridIq3S, kLevelsIq3S);
    return halves.data();
}

}  // namespace tessera::quants
