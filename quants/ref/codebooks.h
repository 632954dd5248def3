#pragma once
// The codebooks ("grids") of the IQ1, IQ2 and IQ3 types: the combinations of magnitudes that a group of
// weights may take.
#include <array>
#include <cstdint>

namespace tessera::quants {

/// `words` groups of `n` values each, in the order that a block's indices count.
template <int words, int n>
using Grid = std::array<std::array<int8_t, n>, words>;

extern const Grid<256, 8> kGridIq2Xxs;  ///< values 8, 25, 43
extern const Grid<512, 8> kGridIq2Xs;   ///< values 8, 25, 43
extern const Grid<1024, 8> kGridIq2S;   ///< values 8, 25, 43
extern const Grid<256, 4> kGridIq3Xxs;  ///< values 4, 12, 20, 28, 36, 44, 52, 62
extern const Grid<512, 4> kGridIq3S;    ///< values 1, 3, .. 15
extern const Grid<2048, 8> kGridIq1;    ///< values -1, 0, 1

}  // namespace tessera::quants
