#pragma once
// How weights are prefetched, by processor family: one table of numbers. They set speed, never results. The
// kernels read the numbers; quants/dispatch.h chooses the row. Included by ISA units: nothing inline.
#include <stdint.h>

namespace tessera::kernels {

/// The larger value of WeightTuning::streams.
constexpr int kStreams = 4;

/// Prefetch distances in bytes ahead of the weights that are being multiplied; 0: no prefetch to that level.
struct PrefetchDistance {
    int l1, l2;
};

/// For the weights of one product. The defaults read one stream in two steps: to L2 far ahead, then to L1. L1
/// alone has too few line-fill buffers: 6 % less bandwidth on Zen 4, where four streams decode 7 % slower.
struct WeightTuning {
    /// Places of the matrix, a quarter of it apart, that one or two tokens read at the same time: 1 or
    /// kStreams.
    int streams = 1;
    /// A stream that is read alone, which keeps as many lines in flight as four together, and each of
    /// several.
    PrefetchDistance one = {.l1 = 4096, .l2 = 16384}, several = {.l1 = 1024, .l2 = 4096};
    /// Each of several streams with 512-bit vectors, up to two tokens; and more tokens.
    PrefetchDistance wide_few = {.l1 = 1024, .l2 = 4096}, wide_many = {.l1 = 1024, .l2 = 4096};
    /// With wide_many each unit's first line is prefetched this far ahead, before its others; 0: not.
    int wide_first_line = 0;
    /// Up to this many bytes of a group of rows and its activations, which then stay in L1, a single token of
    /// the AVX-512 kernels leaves prefetching to the processor; with longer rows that would cost 25 % of
    /// memory bandwidth. 0: never.
    int hardware_bytes = 24 << 10;
};

/// Four streams, each long enough for the hardware prefetcher, and one step to L1. Decoding Q4_K_M: 43.6
/// tokens/s instead of 36.6 with the best single stream on Granite Rapids, 0.85 to 0.92 of memory bandwidth
/// instead of 0.64 on Zen 5. Zen 5, wide vectors: 1664 bytes gain 1 to 6 % over 1024 and 2048; for 3 to 8
/// tokens 3072 bytes and each unit's first line a page ahead gain 1.5 to 12 %, likely as TLB misses end
/// earlier.
constexpr WeightTuning kFourStreams = {.streams = kStreams,
                                       .one = {.l1 = 2048, .l2 = 0},
                                       .several = {.l1 = 2048, .l2 = 0},
                                       .wide_few = {.l1 = 1664, .l2 = 0},
                                       .wide_many = {.l1 = 3072, .l2 = 0},
                                       .wide_first_line = 4096,
                                       .hardware_bytes = 0};
/// No prefetch, for weights that a cache holds already.
constexpr WeightTuning kCachedWeights = {.streams = 1,
                                         .one = {0, 0},
                                         .several = {0, 0},
                                         .wide_few = {0, 0},
                                         .wide_many = {0, 0},
                                         .wide_first_line = 0,
                                         .hardware_bytes = 0};

struct CpuTuning {
    const char* family;       // a key for `tessera info --json`
    const char* text;         // for readers
    WeightTuning packed;      // quantized weights
    PrefetchDistance floats;  // packed floats
    bool beside_to_l1;        // where attention's PackedMatmulArgs::beside is prefetched to: L1, or L2
};

constexpr const char* kOneStreamText = "weights in one stream, prefetched to L2 and from there to L1";
constexpr const char* kFourStreamsText = "weights in four streams, prefetched to L1";

// Each measured on one or two machines; other processors take the first row.
constexpr PrefetchDistance kFloatsTwoSteps = {.l1 = 1024, .l2 = 4096}, kFloatsOneStep = {.l1 = 1536, .l2 = 0};
constexpr CpuTuning kDefaultTuning = {"default", kOneStreamText, {}, kFloatsTwoSteps, false};
constexpr CpuTuning kIntelTuning = {"intel", kFourStreamsText, kFourStreams, kFloatsTwoSteps, false};
constexpr CpuTuning kZen3Tuning = {"zen3", kFourStreamsText, kFourStreams, kFloatsTwoSteps, false};
constexpr CpuTuning kZen5Tuning = {"zen5", kFourStreamsText, kFourStreams, kFloatsOneStep, true};

}  // namespace tessera::kernels
