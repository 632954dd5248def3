// A text ends before the first line with too little indentation, at the same place for every way to cut it.
#include "src/text/indent_stop.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::text {
namespace {

struct IndentFound {
    std::string text;
    bool hit;
};

IndentFound feed_indent(IndentStop indent, const std::vector<std::string>& pieces) {
    IndentFound out;
    for (const std::string& piece : pieces) out.text += indent.push(piece);
    out.text += indent.flush();
    out.hit = indent.hit();
    return out;
}

TEST(IndentStop, EveryCutEndsAtTheSamePlace) {
    struct Case {
        int64_t least;
        std::string text, kept;
    };
    const Case cases[] = {
        {4, "a:\n    b\n  c\n    d", "a:\n    b\n"},
        {4, "first\n\n   \n    b\r\n\r\n\t\t\t\tc\n\n}", "first\n\n   \n    b\r\n\r\n\t\t\t\tc\n\n"},
        {1, "x\ny", "x\n"},
        {1, "x\n y\n", "x\n y\n"},
        {2, "x\n ", "x\n "},
        {2, "\n  a\n\xC3\xA9", "\n  a\n"},
        {0, "x\ny\n z", "x\ny\n z"},
    };
    for (const Case& c : cases) {
        for (size_t a = 0; a <= c.text.size(); ++a)
            for (size_t b = a; b <= c.text.size(); ++b) {
                const IndentFound found = feed_indent(
                    IndentStop(c.least), {c.text.substr(0, a), c.text.substr(a, b - a), c.text.substr(b)});
                EXPECT_EQ(found.text, c.kept);
                EXPECT_EQ(found.hit, c.kept != c.text);
            }
        std::vector<std::string> letters;
        for (const char letter : c.text) letters.emplace_back(1, letter);
        EXPECT_EQ(feed_indent(IndentStop(c.least), letters).text, c.kept);
    }
}

TEST(IndentStop, OnlyAnIndentationIsHeldBack) {
    IndentStop indent(3);
    EXPECT_EQ(indent.push("a\n  "), "a\n");
    EXPECT_EQ(indent.push(" "), "");
    EXPECT_EQ(indent.push("b  "), "   b  ");
    EXPECT_EQ(indent.push("\n "), "\n");
    EXPECT_EQ(indent.flush(), " ");
    EXPECT_EQ(indent.flush(), "");
}

}  // namespace
}  // namespace tessera::text
