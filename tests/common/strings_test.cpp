#include "common/strings.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(ParseInt, TakesWholeTextsOnly) {
    EXPECT_EQ(parse_int("42"), 42);
    EXPECT_EQ(parse_int("-9223372036854775808"), INT64_MIN);
    for (const char* bad : {"", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "9223372036854775808", "--1"})
        EXPECT_EQ(parse_int(bad), std::nullopt) << bad;
}

TEST(ParseDouble, TakesWholeTextsOnly) {
    EXPECT_EQ(parse_double("0.5"), 0.5);
    EXPECT_EQ(parse_double("-1e3"), -1000.0);
    EXPECT_EQ(parse_double(".25"), 0.25);
    for (const char* bad : {"", ".", "1,5", " 1", "1 ", "1e", "1e999", "0x1p3", "one"})
        EXPECT_EQ(parse_double(bad), std::nullopt) << bad;
}

TEST(Split, KeepsEmptyParts) {
    using Parts = std::vector<std::string_view>;
    EXPECT_EQ(split("a,b,,c", ','), (Parts{"a", "b", "", "c"}));
    EXPECT_EQ(split("", ','), (Parts{""}));
    EXPECT_EQ(split(",", ','), (Parts{"", ""}));
}

TEST(Trim, TakesAllKindsOfSpace) {
    EXPECT_EQ(trim(" \t\r\n\v\f a b \n"), "a b");
    EXPECT_EQ(trim("  "), "");
    EXPECT_EQ(trim(""), "");
}

TEST(ToLower, ChangesLettersOfAsciiOnly) { EXPECT_EQ(to_lower("Q4_K-Ä"), "q4_k-Ä"); }

TEST(FormatBytes, ShowsThreeDigits) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.00 KiB");
    EXPECT_EQ(format_bytes(88269), "86.2 KiB");
    EXPECT_EQ(format_bytes(uint64_t{3} << 29), "1.50 GiB");
    EXPECT_EQ(format_bytes(10239), "10.0 KiB");
    EXPECT_EQ(format_bytes(102399), "100 KiB");
    EXPECT_EQ(format_bytes((1 << 20) - 1), "1.00 MiB");
    EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(Printable, EscapesControlCharacters) {
    EXPECT_EQ(printable("plain Grüße 漢字"), "plain Grüße 漢字");
    EXPECT_EQ(printable("a\nb\x1b[31m\x7f"), "a\\x0Ab\\x1B[31m\\x7F");
    EXPECT_EQ(printable("\xff\xc3"), "\\xFF\\xC3");
    EXPECT_EQ(printable("\xc2\x85"), "\\xC2\\x85");           // a C1 control
    EXPECT_EQ(printable("\xe2\x80\xae"), "\\xE2\\x80\\xAE");  // right-to-left override
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, CutsLongTexts) {
    EXPECT_EQ(printable("abcdef", 6), "abcdef");
    EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
    EXPECT_EQ(printable("äöü", 2), "äö...");
    EXPECT_EQ(printable("abc\n", 6), "abc...");
    EXPECT_EQ(printable(std::string(1000000, 'x')).size(), 83u);
    EXPECT_EQ(printable("", 0), "");
}

TEST(NearestName, FindsTypos) {
    const std::string_view names[] = {"temperature", "top-k", "top-p", "threads", "seed"};
    EXPECT_EQ(nearest_name("temprature", names), "temperature");
    EXPECT_EQ(nearest_name("theards", names), "threads");
    EXPECT_EQ(nearest_name("sede", names), "seed");
    EXPECT_EQ(nearest_name("top-p", names), "top-p");
    EXPECT_EQ(nearest_name("top_k", names), "top-k");
    EXPECT_EQ(nearest_name("banana", names), "");
    EXPECT_EQ(nearest_name("", names), "");
    EXPECT_EQ(nearest_name(std::string(1000000, 't'), names), "");
    EXPECT_EQ(nearest_name("x", {}), "");
}

TEST(Strings, UnescapeTurnsSequencesIntoBytes) {
    EXPECT_EQ(unescape("a\\nb\\tc\\rd"), "a\nb\tc\rd");
    EXPECT_EQ(unescape("\\\\n \\\" \\'"), "\\n \" '");
    EXPECT_EQ(unescape("\\x41\\xe4\\x00."), std::string("A\xe4\0.", 4));
    // Any other backslash stays.
    for (const char* text : {"\\", "\\q", "\\x4", "\\xg1", "\\x-1", "plain", ""})
        EXPECT_EQ(unescape(text), text);
}

}  // namespace
}  // namespace tessera
