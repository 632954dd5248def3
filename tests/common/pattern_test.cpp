#include "common/pattern.h"

#include <gtest/gtest.h>

#include "common/log.h"

namespace tessera {
namespace {

std::string repeated(const std::string& text, int n) {
    std::string out;
    for (int i = 0; i < n; ++i) out += text;
    return out;
}

TEST(Pattern, IsFoundAnywhereUnlessAnchored) {
    const std::string name = "blk.10.ffn_down.weight";
    for (const char* text :
         {"ffn", "^blk", "weight$", R"(blk\.[0-9]+\.)", R"(\.(10|11)\.)", "f{2}n", R"((f)\1)", ""})
        EXPECT_TRUE(Pattern::compile(text)->found_in(name)) << text;
    for (const char* text : {"FFN", "^ffn", R"(blk\.1\.)", "f{3}"})
        EXPECT_FALSE(Pattern::compile(text)->found_in(name)) << text;
    const std::string any = "blk.\xff.x";
    EXPECT_TRUE(Pattern::compile(R"(^blk\..\.)")->found_in(any));
}

TEST(Pattern, ErrorsNameThePlace) {
    const auto open = Pattern::compile("a(");
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code, ErrorCode::InvalidArgument);
    EXPECT_NE(open.error().message.find("pattern 'a(': expected a regular expression, found at byte 2"),
              std::string::npos)
        << open.error().message;
    const auto long_one = Pattern::compile(std::string(1025, 'a'));
    ASSERT_FALSE(long_one);
    EXPECT_NE(long_one.error().message.find("expected up to 1024 bytes, found 1025"), std::string::npos);
}

// Patterns for which the C library's regular expressions take gigabytes or overflow the stack.
TEST(Pattern, NoneTakesTimeOrMemory) {
    for (const std::string& text :
         {repeated("(", 500) + "a" + repeated(")", 500), repeated("(", 60) + "a" + repeated("{255})", 60),
          "a" + repeated("{200}", 100), std::string(1024, '(')})
        EXPECT_FALSE(Pattern::compile(text)) << text;

    int n_warnings = 0;
    log::set_sink([&](log::Level, std::string_view) { n_warnings++; });
    const auto slow = Pattern::compile("(((a*)*)*)*b");
    ASSERT_TRUE(slow);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(slow->found_in(std::string(60, 'a')));
    EXPECT_TRUE(slow->found_in("aab"));
    EXPECT_FALSE(Pattern::compile("(?R)a|b(?R)")->found_in("bbbbbbbbbbbb"));
    log::set_sink({});
    EXPECT_GE(n_warnings, 1);
}

}  // namespace
}  // namespace tessera
