#pragma once
// The codebooks of quants/ref/codebooks.h for ISA units, which include no std headers: a word's 8 (IQ3: 4)
// signed bytes follow those of the word before. Included by ISA units: only C headers here, and nothing
// inline.
#include <stdint.h>

namespace tessera::kernels {

extern const int8_t* const kWordsIq2Xxs;  // 256 words of 8
extern const int8_t* const kWordsIq2Xs;   // 512 of 8
extern const int8_t* const kWordsIq2S;    // 1024 of 8
extern const int8_t* const kWordsIq3Xxs;  // 256 of 4
extern const int8_t* const kWordsIq3S;    // 512 of 4
extern const int8_t* const kWordsIq1;     // 2048 of 8

}  // namespace tessera::kernels
