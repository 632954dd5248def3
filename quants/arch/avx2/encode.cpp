// The encoders on AVX2: the same source and the same bytes as quants/encode/encode.cpp.
#define TSR_ENCODE_SET avx2
#include "quants/encode/functions.inl"
