// The encoders compiled for every processor: the definition of their bytes. The code is in the .inl files of
// this folder, from functions.inl down to search.inl; quants/arch/avx2 compiles the same.
#define TSR_ENCODE_SET baseline
#include "quants/encode/functions.inl"
