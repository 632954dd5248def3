#include "common/f16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "common/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera {
namespace {

uint32_t bits_of(float f) { return std::bit_cast<uint32_t>(f); }

bool is_nan_half(uint32_t h) { return (h & 0x7fff) > 0x7c00; }

// Every half, its neighbouring floats, the midpoints between halves and their neighbours, and a coarse walk
// over all floats, so that every rounding decision occurs.
void for_each_interesting_float(const std::function<void(uint32_t bits)>& visit) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const uint32_t u = bits_of(f16_to_f32(static_cast<uint16_t>(h)));
        for (const uint32_t step : {0u, 0x1000u})
            for (const uint32_t near : {0u, 1u, 0xffffffffu}) visit(u + step + near);
    }
    for (uint64_t u = 0; u < uint64_t{1} << 32; u += 8191) visit(static_cast<uint32_t>(u));
    for (uint32_t n = 0; n < 2048; n++) {
        // Midpoints of subnormal halves, which lie at odd multiples of 2^-25.
        const uint32_t u = bits_of(std::ldexp(static_cast<float>(2 * n + 1), -25));
        for (const uint32_t near : {0u, 1u, 0xffffffffu}) visit(u + near);
    }
}

TEST(F16, EveryHalfSurvivesARoundTrip) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const uint16_t again = f32_to_f16(f16_to_f32(static_cast<uint16_t>(h)));
        ASSERT_EQ(again, is_nan_half(h) ? (h | 0x200) : h) << std::hex << h;
    }
}

TEST(F16, KnownValues) {
    EXPECT_EQ(f16_to_f32(0x3c00), 1.0f);
    EXPECT_EQ(f16_to_f32(0xc000), -2.0f);
    EXPECT_EQ(f16_to_f32(0x7bff), 65504.0f);
    EXPECT_EQ(f16_to_f32(0x0001), 0x1p-24f);
    EXPECT_EQ(f16_to_f32(0x03ff), 0x1.ff8p-15f);
    EXPECT_TRUE(std::signbit(f16_to_f32(0x8000)));
    EXPECT_EQ(f16_to_f32(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(F16, NarrowingRoundsToNearestEven) {
    EXPECT_EQ(f32_to_f16(1.0f + 0x1p-11f), 0x3c00);    // tie, even below
    EXPECT_EQ(f32_to_f16(1.0f + 0x1.8p-10f), 0x3c02);  // tie, even above
    EXPECT_EQ(f32_to_f16(65519.996f), 0x7bff);         // just below the tie with 2^16
    EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);           // the tie itself
    EXPECT_EQ(f32_to_f16(-1e30f), 0xfc00);
    EXPECT_EQ(f32_to_f16(0x1p-25f), 0x0000);  // tie with zero
    EXPECT_EQ(f32_to_f16(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
    EXPECT_EQ(f32_to_f16(0x1.ffcp-15f), 0x0400);  // rounds up into the normals
    EXPECT_EQ(f32_to_f16(-0x1p-149f), 0x8000);
}

#if defined(__aarch64__)
using CompilersHalf = __fp16;  // g++ 12 has no _Float16 there
#elif defined(__FLT16_MANT_DIG__)
using CompilersHalf = _Float16;
#endif

#if defined(__FLT16_MANT_DIG__)
TEST(F16, AgreesWithTheCompilersHalfType) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const auto half = static_cast<uint16_t>(h);
        ASSERT_EQ(bits_of(f16_to_f32(half)), bits_of(static_cast<float>(std::bit_cast<CompilersHalf>(half))))
            << std::hex << h;
    }
    for_each_interesting_float([](uint32_t u) {
        const float f = std::bit_cast<float>(u);
        const auto theirs = std::bit_cast<uint16_t>(static_cast<CompilersHalf>(f));
        ASSERT_EQ(f32_to_f16(f), theirs) << std::hex << u;
    });
}
#endif

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) uint32_t hardware_widen(uint32_t h) {
    return bits_of(_mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(static_cast<int>(h)))));
}

__attribute__((target("avx,f16c"))) uint16_t hardware_narrow(uint32_t u) {
    const __m128 f = _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(u)));
    return static_cast<uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(f, _MM_FROUND_TO_NEAREST_INT)));
}

TEST(F16, AgreesWithTheProcessor) {
    if (!cpu_features().avx2) GTEST_SKIP() << "this processor has no F16C";
    for (uint32_t h = 0; h < 0x10000; h++)
        ASSERT_EQ(bits_of(f16_to_f32(static_cast<uint16_t>(h))), hardware_widen(h)) << std::hex << h;
    for_each_interesting_float([](uint32_t u) {
        ASSERT_EQ(f32_to_f16(std::bit_cast<float>(u)), hardware_narrow(u)) << std::hex << u;
    });
}
#endif

TEST(Bf16, RoundTripAndRounding) {
    for (uint32_t h = 0; h < 0x10000; h++) {
        const uint16_t again = f32_to_bf16(bf16_to_f32(static_cast<uint16_t>(h)));
        const bool nan = (h & 0x7fff) > 0x7f80;
        ASSERT_EQ(again, nan ? (h | 64) : h) << std::hex << h;
    }
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000u)), 0x3f80);  // tie, even below
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000u)), 0x3f82);  // tie, even above
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001u)), 0x3f81);
    EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x7f800001u)),
              0x7fc0);  // a payload only in lost bits stays NaN
    EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0xffffffffu)), 0xffff);
}

TEST(E8m0, HalfOfEveryPowerIsExact) {
    for (int e = 0; e < 256; e++)
        EXPECT_EQ(static_cast<double>(e8m0_half_to_f32(static_cast<uint8_t>(e))), std::ldexp(1.0, e - 128))
            << e;
}

}  // namespace
}  // namespace tessera
