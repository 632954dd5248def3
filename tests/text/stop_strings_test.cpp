// Stop strings end a text at the same place for every way to cut it, and no part of them is output.
#include "src/text/stop_strings.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tessera::text {
namespace {

struct StopFound {
    std::string text;
    int hit;
};

StopFound feed_stops(StopStrings stops, const std::vector<std::string>& pieces) {
    StopFound out;
    for (const std::string& piece : pieces) {
        out.text += stops.push(piece);
        if (stops.hit() >= 0) break;
    }
    out.text += stops.flush();
    out.hit = stops.hit();
    return out;
}

TEST(StopStrings, every_cut_ends_at_the_same_place) {
    const std::string text = "aab aabaab\n\nUser: aaba";
    const std::vector<std::vector<std::string>> lists = {
        {"\n\nUser:"}, {"aabaaba"}, {"aabaa", "abaab"}, {"zzz"}, {"a"}, {"ab\n", "b aa"}, {}};
    for (const auto& list : lists) {
        size_t end = text.size();
        for (const std::string& stop : list) end = std::min(end, text.find(stop));
        const std::string expected = text.substr(0, end);
        for (size_t a = 0; a <= text.size(); ++a)
            for (size_t b = a; b <= text.size(); ++b) {
                const StopFound found =
                    feed_stops(StopStrings(list), {text.substr(0, a), text.substr(a, b - a), text.substr(b)});
                EXPECT_EQ(found.text, expected);
                EXPECT_EQ(found.hit >= 0, end < text.size());
            }
        std::vector<std::string> letters;
        for (const char c : text) letters.emplace_back(1, c);
        EXPECT_EQ(feed_stops(StopStrings(list), letters).text, expected);
    }
}

TEST(StopStrings, only_what_may_be_a_beginning_is_held_back) {
    StopStrings stops({"STOP"});
    EXPECT_EQ(stops.push("a ST"), "a ");
    EXPECT_EQ(stops.push("A"), "STA");
    EXPECT_EQ(stops.push("S"), "");
    EXPECT_EQ(stops.flush(), "S");
}

TEST(StopStrings, empty_strings_stop_nothing) {
    StopStrings stops({"", "x"});
    EXPECT_EQ(stops.push("abc"), "abc");
    EXPECT_EQ(stops.hit(), -1);
}

}  // namespace
}  // namespace tessera::text
