// Lines of `tessera chat` that break between words: the same for every way of cutting the text into pieces.
#include "examples/tessera/chat/word_wrap.h"

#include <gtest/gtest.h>

#include <clocale>

#include "common/utf8.h"

namespace tessera::repl {
namespace {

/// The text in pieces of n bytes, which do not end inside a character.
std::string broken(std::string_view text, size_t width, size_t n) {
    WordWrap wrap;
    std::string out, piece;
    for (const char c : text) {
        piece += c;
        if (piece.size() < n || utf8::complete_prefix(piece) != piece.size()) continue;
        out += wrap.push(piece, width);
        piece.clear();
    }
    out += wrap.push(piece, width);
    return out + wrap.finish();
}

TEST(WordWrap, BreaksBetweenWords) {
    ASSERT_NE(std::setlocale(LC_CTYPE, "C.UTF-8"), nullptr);
    const struct {
        const char *text, *expected;
    } cases[] = {
        {"", ""},
        {"one two", "one two"},
        {"one two three four", "one two\nthree four"},
        {"exactly 10", "exactly 10"},
        {"exactly 10 more", "exactly 10\nmore"},
        {"one  two   three", "one  two\nthree"},
        {"line\n\nnext line is long", "line\n\nnext line\nis long"},
        {"trailing   \nspace ", "trailing   \nspace "},
        // A word that is wider than the terminal begins a line and is broken by the terminal.
        {"a https://example.org/long b", "a\nhttps://example.org/long b"},
        // Wide characters take two columns and break anywhere.
        {"世界世界世界", "世界世界世\n界"},
        {"ab 世界世界 c", "ab 世界世\n界 c"},
        // Combining marks take none.
        {"e\u0301e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301e\u0301e\u0301",
         "e\u0301e\u0301e\u0301e\u0301 e\u0301e\u0301e\u0301e\u0301e\u0301"},
        // Code keeps its lines.
        {"```\nint main() { return 0; }\n```\nafter the code block",
         "```\nint main() { return 0; }\n```\nafter the\ncode block"},
        {"~~~\na b c d e f g h\n~~~", "~~~\na b c d e f g h\n~~~"},
        {"    int main() { return 0; }\nafter the code", "    int main() { return 0; }\nafter the\ncode"},
        {"\tint main() { return 0; }", "\tint main() { return 0; }"},
    };
    for (const auto& [text, expected] : cases)
        for (const size_t n : {1, 2, 3, 1000}) EXPECT_EQ(broken(text, 10, n), expected) << text << " " << n;
}

TEST(WordWrap, WithoutWidthTheTextIsUnchanged) {
    const std::string text = "one two  three\n\tfour 世界 ```";
    for (const size_t n : {1, 5, 100}) EXPECT_EQ(broken(text, 0, n), text);
}

TEST(WordWrap, NoTextIsLost) {
    const std::string text =
        "Once upon a time, in a_very_long_word_that_does_not_fit, 世界 lived.\n* a list\n\n1. b  c";
    for (size_t width = 1; width < 40; width++) {
        std::string plain, whole;
        for (const char c : broken(text, width, 3))
            if (c != '\n' && c != ' ') plain += c;
        for (const char c : text)
            if (c != '\n' && c != ' ') whole += c;
        EXPECT_EQ(plain, whole) << width;
    }
}

TEST(WordWrap, WholeTexts) {
    EXPECT_EQ(wrapped("one two three", 8), "one two\nthree");
    EXPECT_EQ(wrapped("one two three", 8, 2), "one two\n  three");
    EXPECT_EQ(wrapped("one two three", 0), "one two three");
    EXPECT_EQ(text_width("a世e\u0301"), 4u);
}

}  // namespace
}  // namespace tessera::repl
