#include "common/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tessera {
namespace {

class Log : public testing::Test {
  protected:
    void TearDown() override { log::set_sink({}); }
};

TEST_F(Log, IsSilentWithoutASink) {
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    log::warn("nobody hears %d", 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST_F(Log, DeliversLevelAndText) {
    std::vector<std::pair<log::Level, std::string>> seen;
    log::set_sink([&](log::Level level, std::string_view text) { seen.emplace_back(level, text); });
    log::debug("a %d", 1);
    log::info("b %s", "two");
    log::warn("%s", std::string(3000, 'c').c_str());
    ASSERT_EQ(seen.size(), 3u);
    EXPECT_EQ(seen[0], std::make_pair(log::Level::Debug, std::string("a 1")));
    EXPECT_EQ(seen[1], std::make_pair(log::Level::Info, std::string("b two")));
    EXPECT_EQ(seen[2].first, log::Level::Warn);
    EXPECT_EQ(seen[2].second.size(), 3000u);
}

TEST_F(Log, ASinkMayLogAndReplaceItself) {
    int first = 0, second = 0;
    log::set_sink([&](log::Level, std::string_view) {
        first++;
        log::set_sink([&](log::Level, std::string_view) { second++; });
        log::info("inner");
    });
    log::info("outer");
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 1);
}

TEST_F(Log, ThreadsMayLogWhileTheSinkChanges) {
    std::atomic<int> n_seen{0};
    const auto sink = [&](log::Level, std::string_view) { n_seen++; };
    log::set_sink(sink);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++)
        threads.emplace_back([] {
            for (int n = 0; n < 500; n++) log::info("message %d", n);
        });
    for (int n = 0; n < 100; n++) log::set_sink(sink);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(n_seen, 1500);
}

}  // namespace
}  // namespace tessera
