// Encoders that search for scales: their errors against the reference's and against plain rounding, and their
// results for weights that no model should have.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/rng.h"
#include "quants/types.h"
#include "tests/support/data.h"

namespace tessera {
namespace {

constexpr int64_t kSourceWidth = 512;

std::vector<float> golden_floats(const std::string& name) {
    const std::string bytes = test::read_file(test::data_file("quants/" + name));
    std::vector<float> floats(bytes.size() / sizeof(float));
    std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
    return floats;
}

/// `row` again and again, as long as x.
std::vector<float> repeated(const std::vector<float>& row, size_t n) {
    std::vector<float> all(n);
    for (size_t i = 0; i < n; i++) all[i] = row[i % row.size()];
    return all;
}

std::vector<float> decoded(const TypeInfo& info, const std::vector<uint8_t>& blocks) {
    std::vector<float> y(blocks.size() / static_cast<size_t>(info.block_bytes) *
                         static_cast<size_t>(info.block));
    info.dequantize(blocks.data(), y.data(), static_cast<int64_t>(y.size()));
    return y;
}

std::vector<float> encode_and_decode(const TypeInfo& info, const std::vector<float>& x,
                                     const float* importance = nullptr) {
    const int64_t n = static_cast<int64_t>(x.size());
    std::vector<uint8_t> blocks(static_cast<size_t>(info.row_bytes(n)));
    info.quantize(x.data(), importance, blocks.data(), n);
    return decoded(info, blocks);
}

/// sqrt(sum w e^2 / sum w x^2)
double encode_error(const std::vector<float>& x, const std::vector<float>& y,
                    const std::vector<float>& w = {}) {
    double error = 0, norm = 0;
    for (size_t i = 0; i < x.size(); i++) {
        const double weight = w.empty() ? 1.0 : static_cast<double>(w[i]);
        const double value = static_cast<double>(x[i]), rest = static_cast<double>(y[i]) - value;
        error += weight * rest * rest;
        norm += weight * value * value;
    }
    return std::sqrt(error / norm);
}

float normal(Rng& rng) {
    const double radius = std::sqrt(-2 * std::log(1 - rng.next_double()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * rng.next_double()));
}

std::vector<float> normals(uint64_t seed, size_t n, float sigma) {
    Rng rng(seed);
    std::vector<float> x(n);
    for (float& v : x) v = sigma * normal(rng);
    return x;
}

/// The errors of the reference's encoders on the golden data; 0: the reference has no encoder without
/// importances.
struct Bound {
    Type type;
    double plain, weighted;
};
constexpr Bound kBounds[] = {
    {Type::Q4_0, 0.13404, 0.12014},  {Type::Q4_1, 0.10264, 0.07712},    {Type::Q5_0, 0.06693, 0.06097},
    {Type::Q5_1, 0.04527, 0.03481},  {Type::Q8_0, 0.00824, 0.00757},    {Type::Q2_K, 0.30046, 0.24729},
    {Type::Q3_K, 0.17219, 0.15121},  {Type::Q4_K, 0.08764, 0.08218},    {Type::Q5_K, 0.04532, 0.03827},
    {Type::Q6_K, 0.02511, 0.02369},  {Type::IQ4_NL, 0.10082, 0.08913},  {Type::IQ4_XS, 0.10289, 0.09184},
    {Type::MXFP4, 0.14515, 0.14909}, {Type::IQ2_XXS, 0, 0.46792},       {Type::IQ2_XS, 0, 0.37647},
    {Type::IQ2_S, 0.42070, 0.35710}, {Type::IQ3_XXS, 0.26309, 0.19409}, {Type::IQ3_S, 0.19297, 0.15805},
};

/// The errors on normally distributed weights, a few per mille above the measured ones, so that a change that
/// makes an encoder worse is detected.
struct NormalBound {
    Type type;
    double plain;
};
constexpr NormalBound kNormalBounds[] = {
    {Type::Q4_0, 0.0825},   {Type::Q4_1, 0.0703},  {Type::Q5_0, 0.0408},    {Type::Q5_1, 0.0339},
    {Type::Q8_0, 0.00488},  {Type::Q2_K, 0.2620},  {Type::Q3_K, 0.1455},    {Type::Q4_K, 0.0710},
    {Type::Q5_K, 0.0353},   {Type::Q6_K, 0.0170},  {Type::IQ4_NL, 0.0742},  {Type::IQ4_XS, 0.0748},
    {Type::MXFP4, 0.1135},  {Type::TQ1_0, 0.4390}, {Type::TQ2_0, 0.4390},   {Type::IQ2_XXS, 0.3340},
    {Type::IQ2_XS, 0.2910}, {Type::IQ2_S, 0.2410}, {Type::IQ3_XXS, 0.1820}, {Type::IQ3_S, 0.1310},
};

/// Types whose blocks hold a scale, so that encoding is a choice.
std::vector<const TypeInfo*> searched_types() {
    std::vector<const TypeInfo*> types;
    for (const TypeInfo& info : all_types())
        if (info.quantize && info.block > 1) types.push_back(&info);
    return types;
}

TEST(Encode, GoldenErrorsAreNotExceeded) {
    const std::vector<float> x = golden_floats("source.f32");
    const std::vector<float> w = repeated(golden_floats("imatrix.f32"), x.size());
    for (const Bound& bound : kBounds) {
        const TypeInfo& info = type_info(bound.type);
        SCOPED_TRACE(info.name);
        const std::vector<float> plain = encode_and_decode(info, x),
                                 weighted = encode_and_decode(info, x, w.data());
        EXPECT_LE(encode_error(x, plain), bound.plain > 0 ? bound.plain : 1.0);
        EXPECT_LE(encode_error(x, weighted, w), bound.weighted);
        EXPECT_TRUE(std::all_of(plain.begin(), plain.begin() + kSourceWidth, [](float v) { return v == 0; }));
    }
}

TEST(Encode, EveryTypeWithASearchIsBounded) {
    for (const TypeInfo* info : searched_types()) {
        const auto is_it = [&](const NormalBound& bound) { return bound.type == info->type; };
        const auto bound = std::find_if(std::begin(kNormalBounds), std::end(kNormalBounds), is_it);
        ASSERT_NE(bound, std::end(kNormalBounds)) << info->name;
        for (const uint64_t seed : {1u, 2u}) {
            const std::vector<float> x = normals(seed, 64 * 256, 0.02f);
            EXPECT_LE(encode_error(x, encode_and_decode(*info, x)), bound->plain)
                << info->name << ", seed " << seed;
        }
    }
}

TEST(Encode, SearchesBeatOnePass) {
    const std::vector<float> x = normals(3, 32 * 256, 1.0f);
    for (const Type type : {Type::Q4_0, Type::Q8_0}) {
        const TypeInfo& info = type_info(type);
        std::vector<uint8_t> blocks(static_cast<size_t>(info.row_bytes(static_cast<int64_t>(x.size()))));
        info.store(x.data(), blocks.data(), static_cast<int64_t>(x.size()));
        EXPECT_LT(encode_error(x, encode_and_decode(info, x)), 0.97 * encode_error(x, decoded(info, blocks)))
            << info.name;
    }
}

TEST(Encode, ImportanceMovesTheErrorToUnimportantWeights) {
    Rng rng(4);
    const std::vector<float> x = normals(5, 16 * 256, 0.02f);
    std::vector<float> w(x.size());
    for (float& v : w) v = std::exp(1.5f * normal(rng));
    for (const TypeInfo* info : searched_types()) {
        const double seeing = encode_error(x, encode_and_decode(*info, x, w.data()), w);
        EXPECT_LT(seeing, encode_error(x, encode_and_decode(*info, x), w)) << info->name;
    }
}

TEST(Encode, ScalingByAPowerOfTwoChangesNoCode) {
    // Large enough for scales that are normal halves.
    const std::vector<float> x = normals(6, 8 * 256, 16.0f);
    std::vector<float> larger(x.size());
    std::transform(x.begin(), x.end(), larger.begin(), [](float v) { return 4 * v; });
    for (const TypeInfo* info : searched_types()) {
        const std::vector<float> y = encode_and_decode(*info, x), z = encode_and_decode(*info, larger);
        for (size_t i = 0; i < x.size(); i++) ASSERT_EQ(4 * y[i], z[i]) << info->name << " " << i;
    }
}

TEST(Encode, ImportanceOfNothingIsNone) {
    const std::vector<float> x = normals(7, 2 * 256, 1.0f);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (const TypeInfo* info : searched_types()) {
        const std::vector<float> plain = encode_and_decode(*info, x);
        for (const float nothing : {0.0f, -1.0f, nan}) {
            const std::vector<float> w(x.size(), nothing);
            EXPECT_EQ(encode_and_decode(*info, x, w.data()), plain) << info->name << " " << nothing;
        }
        // Equal importances of any size give the result without importances.
        const std::vector<float> w(x.size(), 4096.0f);
        EXPECT_EQ(encode_and_decode(*info, x, w.data()), plain) << info->name;
    }
}

TEST(Encode, ExtremesStayDefined) {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const float most = std::numeric_limits<float>::max();
    for (const TypeInfo* info : searched_types()) {
        SCOPED_TRACE(info->name);
        const auto n = static_cast<size_t>(info->block);
        for (const float bad : {inf, -inf, nan}) {
            std::vector<float> x(2 * n, 1.0f);
            x[5] = bad;
            const std::vector<float> y = encode_and_decode(*info, x);
            const bool shows =
                std::any_of(y.begin(), y.begin() + info->block, [](float v) { return !std::isfinite(v); });
            EXPECT_TRUE(shows ||
                        info->type == Type::MXFP4);  // whose scale has no NaN that every program reads
            EXPECT_TRUE(
                std::all_of(y.begin() + info->block, y.end(), [](float v) { return std::isfinite(v); }));
        }
        for (const float same : {most, -most, 1e-30f, -1e-30f, 1e-45f, 0.0f, -0.0f, 1.0f, -3.0f}) {
            const std::vector<float> y = encode_and_decode(*info, std::vector<float>(2 * n, same));
            for (const float v : y) {
                ASSERT_TRUE(std::isfinite(v)) << same;
                ASSERT_TRUE(v == 0 || (v < 0) == (same < 0) || std::fabs(same) < 1e-20f) << same << " " << v;
            }
        }
    }
}

}  // namespace
}  // namespace tessera
