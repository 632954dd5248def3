// The type registry, the reference decoders against golden blocks, and the encoders' round trips.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "common/rng.h"
#include "quants/encode/encode.h"
#include "quants/ref/codebooks.h"
#include "quants/ref/decode.h"
#include "quants/types.h"
#include "tests/support/data.h"

namespace tessera {
namespace {

constexpr int kGoldenRows = 4;
constexpr int kGoldenWidth = 512;
constexpr int64_t kGoldenWeights = kGoldenRows * kGoldenWidth;

std::vector<float> as_floats(const std::string& bytes) {
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
    return floats;
}

std::string golden(const std::string& name) { return test::read_file(test::data_file("quants/" + name)); }

bool is_weight(const TypeInfo& info) { return info.role == TypeRole::Weight; }

std::vector<float> round_trip(const TypeInfo& info, const std::vector<float>& x,
                              const float* importance = nullptr) {
    const int64_t n = static_cast<int64_t>(x.size());
    std::vector<uint8_t> blocks(static_cast<size_t>(info.row_bytes(n)));
    std::vector<float> y(x.size());
    info.quantize(x.data(), importance, blocks.data(), n);
    info.dequantize(blocks.data(), y.data(), n);
    return y;
}

/// Encodes by plain rounding and decodes.
std::vector<float> stored(const TypeInfo& info, const std::vector<float>& x) {
    const int64_t n = static_cast<int64_t>(x.size());
    std::vector<uint8_t> blocks(static_cast<size_t>(info.row_bytes(n)));
    std::vector<float> y(x.size());
    info.store(x.data(), blocks.data(), n);
    info.dequantize(blocks.data(), y.data(), n);
    return y;
}

/// sqrt(sum w e^2 / sum w x^2)
double relative_error(const std::vector<float>& x, const std::vector<float>& y, const std::vector<float>& w) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double weight = w.empty() ? 1.0 : static_cast<double>(w[i % w.size()]);
        const double e = static_cast<double>(y[i]) - static_cast<double>(x[i]);
        error += weight * e * e;
        norm += weight * static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    return std::sqrt(error / norm);
}

std::string error_of_id(uint32_t id) {
    const Result<Type> type = type_from_id(id);
    EXPECT_FALSE(type.has_value()) << id;
    if (type) return "";
    EXPECT_EQ(type.error().code, ErrorCode::Unsupported);
    EXPECT_NE(type.error().message.find(std::to_string(id)), std::string::npos) << type.error().message;
    return type.error().message;
}

std::string error_of_name(std::string_view name) {
    const Result<Type> type = type_from_name(name);
    EXPECT_FALSE(type.has_value()) << name;
    return type ? "" : type.error().message;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// ---- registry

TEST(Types, EveryRowIsFoundByIdByNameAndByValue) {
    std::set<std::string_view> names;
    std::set<uint32_t> ids;
    for (const TypeInfo& info : all_types()) {
        const uint32_t id = static_cast<uint32_t>(info.type);
        EXPECT_TRUE(names.insert(info.name).second) << info.name;
        EXPECT_TRUE(ids.insert(id).second) << id;
        EXPECT_EQ(&type_info(info.type), &info);
        EXPECT_EQ(type_from_id(id).value(), info.type);
        EXPECT_EQ(type_from_name(info.name).value(), info.type);
        std::string upper(info.name);
        std::transform(upper.begin(), upper.end(), upper.begin(),
                       [](char c) { return c >= 'a' ? char(c - 32) : c; });
        EXPECT_EQ(type_from_name(upper).value(), info.type);
    }
    EXPECT_EQ(names.size(), 30u);
}

TEST(Types, SizesAndCodecs) {
    for (const TypeInfo& info : all_types()) {
        EXPECT_EQ(info.dequantize != nullptr, is_weight(info)) << info.name;
        EXPECT_TRUE(is_weight(info) || !info.quantize) << info.name;
        EXPECT_EQ(info.row_bytes(4 * info.block), 4 * info.block_bytes);
        EXPECT_NEAR(info.bits_per_weight(), 8.0 * info.block_bytes / info.block, 1e-12);
    }
    EXPECT_NEAR(type_info(Type::Q4_K).bits_per_weight(), 4.5, 1e-12);
    EXPECT_EQ(type_info(Type::Q6_K).row_bytes(4096), 16 * 210);
    for (const Type type : {Type::F32, Type::F16, Type::BF16, Type::Q8_0})
        EXPECT_TRUE(type_info(type).quantize);
}

TEST(Types, RetiredAndForeignIdsAreNamed) {
    EXPECT_TRUE(contains(error_of_id(4), "Q4_2"));
    EXPECT_TRUE(contains(error_of_id(5), "Q4_3"));
    for (const uint32_t id : {31u, 32u, 33u}) EXPECT_TRUE(contains(error_of_id(id), "plain Q4_0 file")) << id;
    EXPECT_TRUE(contains(error_of_id(32), "Q4_0_4_8"));
    for (const uint32_t id : {36u, 37u, 38u})
        EXPECT_TRUE(contains(error_of_id(id), "plain IQ4_NL file")) << id;
    EXPECT_TRUE(contains(error_of_id(9), "Q8_1"));
    EXPECT_TRUE(contains(error_of_id(15), "activation format"));
    EXPECT_TRUE(contains(error_of_id(40), "NVFP4"));
    EXPECT_TRUE(contains(error_of_id(41), "Q1_0"));
    EXPECT_TRUE(contains(error_of_id(42), "Q2_0"));
    for (const uint32_t id : {97u, 99u, 133u, 139u, 202u, 399u})
        EXPECT_TRUE(contains(error_of_id(id), "ik_llama.cpp"));
    EXPECT_TRUE(contains(error_of_id(0x54530000u | 1u << 8 | 12u), "packed"));
    for (const uint32_t id : {43u, 96u, 100u, 132u, 400u, 0x5452ffffu, 0x54540000u, 0xffffffffu}) {
        EXPECT_TRUE(contains(error_of_id(id), "unknown")) << id;
    }
}

TEST(Types, EveryIdIsEitherListedOrRefused) {
    size_t n_known = 0;
    for (uint32_t id = 0; id < 1000; id++) {
        if (type_from_id(id))
            n_known++;
        else
            EXPECT_FALSE(error_of_id(id).empty());
    }
    EXPECT_EQ(n_known, all_types().size());
}

TEST(Types, WrongNamesGetAHint) {
    EXPECT_TRUE(contains(error_of_name("q4k"), "did you mean q4_k?"));
    EXPECT_TRUE(contains(error_of_name("IQ3_XSS"), "did you mean iq3_xxs?"));
    EXPECT_TRUE(contains(error_of_name("something else"), "expected a name"));
    EXPECT_TRUE(contains(error_of_name(""), "''"));
    EXPECT_TRUE(contains(error_of_name(std::string("\x1b[31mq9", 7)), "\\x1B"))
        << error_of_name("\x1b[31mq9");
}

// ---- decoders

TEST(QuantsRef, GoldenBlocksDecodeBitForBit) {
    int n_compared = 0;
    for (const TypeInfo& info : all_types()) {
        if (!is_weight(info) || info.type == Type::F32) continue;
        int n_files = 0;
        for (const char* variant : {"", ".imatrix"}) {
            const std::string stem = std::string(info.name) + variant;
            if (!std::filesystem::exists(test::data_file("quants/" + stem + ".blocks"))) continue;
            SCOPED_TRACE(stem);
            const std::string blocks = golden(stem + ".blocks");
            const std::vector<float> expected = as_floats(golden(stem + ".f32"));
            ASSERT_EQ(blocks.size(), static_cast<size_t>(info.row_bytes(kGoldenWeights)));
            ASSERT_EQ(expected.size(), static_cast<size_t>(kGoldenWeights));
            // Misaligned by one byte, because blocks may lie at any address.
            const std::string misaligned = "?" + blocks;
            std::vector<float> x(expected.size());
            info.dequantize(misaligned.data() + 1, x.data(), kGoldenWeights);
            for (size_t i = 0; i < x.size(); i++) {
                ASSERT_EQ(std::bit_cast<uint32_t>(x[i]), std::bit_cast<uint32_t>(expected[i]))
                    << i << ": " << x[i];
            }
            n_files++;
        }
        EXPECT_GE(n_files, 1) << info.name;
        n_compared += n_files;
    }
    EXPECT_EQ(n_compared, 43);
}

TEST(QuantsRef, RandomBytesDecodeWithoutFault) {
    Rng rng(1);
    constexpr int kBlocks = 64;
    for (const TypeInfo& info : all_types()) {
        if (!is_weight(info)) continue;
        // Exactly as long as the blocks, so that a sanitizer sees a read past the end.
        std::vector<uint8_t> bytes(static_cast<size_t>(kBlocks * info.block_bytes));
        std::vector<float> x(static_cast<size_t>(kBlocks * info.block));
        for (int round = 0; round < 8; round++) {
            for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng.next_u64());
            if (round == 0) std::fill(bytes.begin(), bytes.end(), uint8_t{0});
            if (round == 1) std::fill(bytes.begin(), bytes.end(), uint8_t{255});
            std::vector<float> again(x.size());
            info.dequantize(bytes.data(), x.data(), kBlocks * info.block);
            info.dequantize(bytes.data(), again.data(), kBlocks * info.block);
            EXPECT_EQ(std::memcmp(x.data(), again.data(), x.size() * sizeof(float)), 0) << info.name;
            const bool all_finite = std::all_of(x.begin(), x.end(), [](float v) { return std::isfinite(v); });
            EXPECT_TRUE(all_finite || round != 0) << info.name;
        }
    }
}

template <class Words>
void expect_rising_words(const Words& words, const std::set<int>& levels) {
    std::set<int> seen;
    for (size_t w = 0; w < words.size(); w++) {
        for (const int8_t value : words[w]) seen.insert(value);
        if (w == 0) continue;
        // The last digit is the most significant.
        EXPECT_TRUE(std::lexicographical_compare(words[w - 1].rbegin(), words[w - 1].rend(),
                                                 words[w].rbegin(), words[w].rend()))
            << w;
    }
    EXPECT_EQ(seen, levels);
}

TEST(QuantsRef, CodebooksRiseAndUseEveryLevel) {
    expect_rising_words(quants::kGridIq2Xxs, {8, 25, 43});
    expect_rising_words(quants::kGridIq2Xs, {8, 25, 43});
    expect_rising_words(quants::kGridIq2S, {8, 25, 43});
    expect_rising_words(quants::kGridIq3Xxs, {4, 12, 20, 28, 36, 44, 52, 62});
    expect_rising_words(quants::kGridIq3S, {1, 3, 5, 7, 9, 11, 13, 15});
    expect_rising_words(quants::kGridIq1, {-1, 0, 1});
}

TEST(QuantsRef, EvenSignsHaveAnEvenNumberOfMinuses) {
    for (uint32_t field = 0; field < 128; field++) {
        const uint32_t signs = quants::even_signs(field | 0xffffff80u);
        EXPECT_EQ(signs & 127, field);
        EXPECT_EQ(std::popcount(signs) % 2, 0);
        EXPECT_LT(signs, 256u);
    }
}

TEST(QuantsRef, TernaryDigitsOfEveryNumber) {
    for (int number = 0; number < 243; number++) {
        const uint8_t byte = static_cast<uint8_t>((number * 256 + 242) / 243);
        int rest = 0;
        for (int n = 0; n < 5; n++) rest = rest * 3 + quants::ternary_digit(byte, n);
        EXPECT_EQ(rest, number);
    }
}

// ---- encoders

TEST(QuantsEncode, EveryHalfAndBrainFloatSurvives) {
    for (const Type type : {Type::F16, Type::BF16}) {
        const TypeInfo& info = type_info(type);
        for (uint32_t bits = 0; bits < 65536; bits++) {
            const uint8_t stored[2] = {static_cast<uint8_t>(bits), static_cast<uint8_t>(bits >> 8)};
            float x = 0;
            uint8_t back[2];
            info.dequantize(stored, &x, 1);
            info.quantize(&x, nullptr, back, 1);
            if (std::isnan(x)) {
                info.dequantize(back, &x, 1);
                EXPECT_TRUE(std::isnan(x)) << info.name << " " << bits;
            } else {
                EXPECT_EQ(back[0] | back[1] << 8, static_cast<int>(bits)) << info.name;
            }
        }
    }
}

TEST(QuantsEncode, F32IsACopy) {
    Rng rng(2);
    std::vector<float> x(256);
    for (float& v : x) v = std::bit_cast<float>(static_cast<uint32_t>(rng.next_u64()));
    const std::vector<float> y = round_trip(type_info(Type::F32), x);
    EXPECT_EQ(std::memcmp(x.data(), y.data(), x.size() * sizeof(float)), 0);
}

TEST(QuantsEncode, GoldenErrorsAreNotExceeded) {
    const std::vector<float> source = as_floats(golden("source.f32"));
    const std::vector<float> importance = as_floats(golden("imatrix.f32"));
    ASSERT_EQ(source.size(), static_cast<size_t>(kGoldenWeights));
    const std::vector<float> y = round_trip(type_info(Type::Q8_0), source);
    EXPECT_LE(relative_error(source, y, {}), 0.00824);
    EXPECT_LE(relative_error(source, y, importance), 0.00757);
    EXPECT_TRUE(std::all_of(y.begin(), y.begin() + kGoldenWidth, [](float v) { return v == 0; }));
    for (const Type type : {Type::F16, Type::BF16}) {
        const std::string name(type_info(type).name);
        EXPECT_EQ(round_trip(type_info(type), source), as_floats(golden(name + ".f32"))) << name;
    }
}

TEST(QuantsEncode, Q8RoundsToTheNearestLevel) {
    Rng rng(3);
    std::vector<float> x(32 * 200);
    for (size_t i = 0; i < x.size(); i++) {
        const int exponent = static_cast<int>(i / 32) % 40 - 20;
        x[i] = std::ldexp(static_cast<float>(2 * rng.next_double() - 1), exponent);
    }
    const std::vector<float> y = stored(type_info(Type::Q8_0), x);
    for (size_t first = 0; first < x.size(); first += 32) {
        float largest = 0;
        for (size_t i = first; i < first + 32; i++) largest = std::max(largest, std::fabs(x[i]));
        // The scale d is rounded up to a half: by less than 2^-10 of it, or by less than 2^-24 if it is tiny.
        const float d = largest / 127 * (1 + 0x1p-10f) + 0x1p-24f;
        for (size_t i = first; i < first + 32; i++) EXPECT_LE(std::fabs(x[i] - y[i]), d * 0.5001f) << i;
    }
}

TEST(QuantsEncode, Q8ExtremesStayDefined) {
    const TypeInfo& info = type_info(Type::Q8_0);
    const float inf = std::numeric_limits<float>::infinity();
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const float bad : {inf, -inf, nan}) {
        std::vector<float> x(64, 1.0f);
        x[5] = bad;
        const std::vector<float> y = stored(info, x);
        EXPECT_TRUE(std::all_of(y.begin(), y.begin() + 32, [](float v) { return std::isnan(v); }));
        EXPECT_TRUE(std::all_of(y.begin() + 32, y.end(), [](float v) { return std::fabs(v - 1) < 0.005f; }));
    }
    const float most = std::numeric_limits<float>::max();
    for (const float v : stored(info, std::vector<float>(32, -most))) EXPECT_EQ(v, -127 * 65504.0f);
    for (const float v : stored(info, std::vector<float>(32, 1e-30f))) EXPECT_EQ(v, 0);
}

}  // namespace
}  // namespace tessera
