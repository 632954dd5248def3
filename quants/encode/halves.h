#pragma once
// The codebooks in the form that the search needs: every word as two halves, each a number whose digits are
// levels. Included by ISA units: only C headers here.
#include <stdint.h>

namespace tessera::quants {

/// The first weights of a word and the last ones; the first weight of each is the least significant digit.
struct WordHalves {
    uint8_t low, high;
};

// By the index that blocks store; they live as long as the program.
const WordHalves* halves_iq2_xxs();  ///< [256], four digits of three levels in each half
const WordHalves* halves_iq2_xs();   ///< [512]
const WordHalves* halves_iq2_s();    ///< [1024]
const WordHalves* halves_iq3_xxs();  ///< [256], two digits of eight levels in each half
const WordHalves* halves_iq3_s();    ///< [512]

}  // namespace tessera::quants
