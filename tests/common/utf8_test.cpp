#include "common/utf8.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

bool is_scalar_value(uint32_t c) { return c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF); }

TEST(Utf8, EveryCodePointSurvivesARoundTrip) {
    for (uint32_t c = 0; c <= 0x10FFFF; c++) {
        if (!is_scalar_value(c)) continue;
        std::string text;
        utf8::append(text, c);
        const utf8::Decoded decoded = utf8::decode(text);
        ASSERT_TRUE(decoded.valid && decoded.code_point == c && decoded.n_bytes == text.size())
            << std::hex << c;
        for (size_t n = 1; n < text.size(); n++) {
            const std::string_view part = std::string_view(text).substr(0, n);
            ASSERT_EQ(utf8::complete_prefix(part), 0u) << std::hex << c;
            ASSERT_FALSE(utf8::is_valid(part));
        }
        ASSERT_EQ(utf8::complete_prefix(text), text.size());
    }
}

// Counts the well-formed texts among all texts of two and three bytes; there are exactly as many as code
// points encode to.
TEST(Utf8, OnlyEncodedCodePointsAreValid) {
    int n_two = 0, n_three = 0;
    for (int a = 0x80; a < 256; a++) {
        for (int b = 0; b < 256; b++) {
            const char pair[] = {static_cast<char>(a), static_cast<char>(b)};
            n_two += utf8::decode({pair, 2}).valid;
            if (a < 0xE0 || a > 0xEF) continue;
            for (int c = 0; c < 256; c++) {
                const char triple[] = {static_cast<char>(a), static_cast<char>(b), static_cast<char>(c)};
                n_three += utf8::decode({triple, 3}).valid;
            }
        }
    }
    EXPECT_EQ(n_two, 0x800 - 0x80);
    EXPECT_EQ(n_three, 0x10000 - 0x800 - 0x800);
}

TEST(Utf8, IllFormedPartsAreMaximal) {
    // The examples of the Unicode standard, 3.9, tables 3-8 to 3-11: bytes, then the lengths of the parts.
    const struct {
        const char* text;
        std::vector<uint32_t> lengths;
    } cases[] = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {2, 1, 3, 2, 1}},
    };
    for (const auto& example : cases) {
        std::string_view rest = example.text;
        for (const uint32_t length : example.lengths) {
            const utf8::Decoded decoded = utf8::decode(rest);
            EXPECT_EQ(decoded.n_bytes, length);
            EXPECT_EQ(decoded.valid, static_cast<unsigned char>(rest[0]) < 0x80);
            EXPECT_EQ(decoded.code_point, decoded.valid ? static_cast<uint32_t>(rest[0]) : 0xFFFDu);
            rest.remove_prefix(decoded.n_bytes);
        }
        EXPECT_TRUE(rest.empty());
    }
}

TEST(Utf8, AppendReplacesWhatIsNoCharacter) {
    for (const uint32_t c : {0xD800u, 0xDFFFu, 0x110000u, 0xFFFFFFFFu}) {
        std::string text;
        utf8::append(text, c);
        EXPECT_EQ(text, "\xEF\xBF\xBD");
    }
}

TEST(Utf8, SanitizeReplacesEachIllFormedPartOnce) {
    EXPECT_EQ(utf8::sanitize("a\xE2\x82z\xFF"), "a\xEF\xBF\xBDz\xEF\xBF\xBD");
    EXPECT_EQ(utf8::sanitize("Grüße"), "Grüße");
    EXPECT_EQ(utf8::sanitize(""), "");
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++) {
            const char text[] = {static_cast<char>(a), static_cast<char>(b)};
            ASSERT_TRUE(utf8::is_valid(utf8::sanitize({text, 2})));
        }
}

TEST(Utf8, CompletePrefixHoldsBackOnlyWhatCanStillGrow) {
    EXPECT_EQ(utf8::complete_prefix(""), 0u);
    EXPECT_EQ(utf8::complete_prefix("ab"), 2u);
    EXPECT_EQ(utf8::complete_prefix("ab\xE2\x82"), 2u);
    EXPECT_EQ(utf8::complete_prefix("ab\xF0\x9F\x98"), 2u);
    EXPECT_EQ(utf8::complete_prefix("\xF0\x9F\x98\x80"), 4u);
    EXPECT_EQ(utf8::complete_prefix("a\x80"), 2u);      // a stray continuation byte never becomes valid
    EXPECT_EQ(utf8::complete_prefix("a\xE0\x80"), 3u);  // nor does an overlong form
    EXPECT_EQ(utf8::complete_prefix("a\xED\xA0"), 3u);  // nor a surrogate
    EXPECT_EQ(utf8::complete_prefix("a\xFF"), 2u);
    EXPECT_EQ(utf8::complete_prefix("\xE2\x82\xE2"), 2u);
}

}  // namespace
}  // namespace tessera
