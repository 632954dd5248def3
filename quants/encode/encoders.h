#pragma once
// The encoders with a search, once for each instruction set that they are compiled for; all give the same
// bytes. Included by ISA units: only C headers here.
#include <stdint.h>

namespace tessera::quants {

// encode_NAME(src, importance, dst, n): n weights (a multiple of the block) to consecutive blocks at dst.
// importance [n] weighs the squared error of each weight; null: all equally. Negative and NaN importance
// counts as 0, and where all of a block's are 0, all weights count equally. Never fails: a block with an
// infinite or NaN weight decodes to NaNs, so that damage stays visible; values beyond the format's range
// saturate.
#define TSR_ENCODER(Name, name, Kind) \
    void encode_##name(const float* src, const float* importance, void* dst, int64_t n);

/// Compiled for the oldest processor of its kind.
namespace baseline {
#include "quants/encode/encoders.def"
}
/// For the table of AVX2.
namespace avx2 {
#include "quants/encode/encoders.def"
}
#undef TSR_ENCODER

}  // namespace tessera::quants
