#include "common/progress.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>

namespace tessera {
namespace {

using Unit = ProgressBar::Unit;

TEST(Progress, ShowsShareAmountRateAndTimeLeft) {
    EXPECT_EQ(ProgressBar::render("packing", 512 << 20, 2048u << 20, Unit::Bytes, 4.0, 79),
              "packing [######..................]  25%  512 MiB/2.00 GiB  128 MiB/s  0:12 left");
    EXPECT_EQ(ProgressBar::render("prompt", 50, 50, Unit::Tokens, 4.0, 70),
              "prompt [#######################] 100%  50/50  12.5 tokens/s  0:00 left");
}

TEST(Progress, UnknownTotalShowsTimePassed) {
    const std::string line = ProgressBar::render("reading", 3 << 20, 0, Unit::Bytes, 3661, 60);
    EXPECT_TRUE(line.starts_with("reading  3.00 MiB  859 B/s  1:01:01")) << line;
    EXPECT_EQ(line.size(), 60u);
}

TEST(Progress, NoRateOfTheFirstMoment) {
    EXPECT_EQ(ProgressBar::render("comparing", 1 << 30, 2048u << 20, Unit::Bytes, 2e-6, 60),
              "comparing [#####.....]  50%  1.00 GiB/2.00 GiB  -  -:-- left");
}

TEST(Progress, FillsExactlyTheWidth) {
    for (int width = 0; width < 200; width++)
        for (const uint64_t total : {uint64_t{0}, uint64_t{7}, UINT64_MAX})
            for (const uint64_t done : {uint64_t{0}, uint64_t{3}, uint64_t{7}, UINT64_MAX})
                for (const double seconds : {0.0, 1e-9, 5.0, 1e12})
                    for (const Unit unit : {Unit::Bytes, Unit::Tokens, Unit::Items})
                        ASSERT_EQ(ProgressBar::render("load", done, total, unit, seconds, width).size(),
                                  static_cast<size_t>(width));
}

TEST(Progress, ALabelBeyondAsciiCountsByCharacters) {
    const std::string line = ProgressBar::render("größe", 1, 2, Unit::Items, 1, 80);
    EXPECT_EQ(line.size(), 82u);
    EXPECT_EQ(ProgressBar::render("größe", 1, 2, Unit::Items, 1, 3), "grö");
}

TEST(Progress, IsSilentWhenStderrIsNoTerminal) {
    testing::internal::CaptureStderr();
    {
        ProgressBar bar("packing", 10, Unit::Items);
        bar.update(5);
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

/// Redirects standard error to a pseudo terminal during its lifetime.
class Terminal {
  public:
    Terminal() {
        master_ = posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
        if (master_ < 0 || grantpt(master_) != 0 || unlockpt(master_) != 0) return;
        const int slave = open(ptsname(master_), O_RDWR | O_NOCTTY);
        if (slave < 0) return;
        saved_ = dup(STDERR_FILENO);
        dup2(slave, STDERR_FILENO);
        close(slave);
    }
    ~Terminal() {
        restore();
        if (master_ >= 0) close(master_);
    }
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;

    bool ok() const { return saved_ >= 0; }
    std::string take() {
        char text[4096];
        const ssize_t n = read(master_, text, sizeof text);
        return n > 0 ? std::string(text, static_cast<size_t>(n)) : std::string();
    }

  private:
    void restore() {
        if (saved_ < 0) return;
        dup2(saved_, STDERR_FILENO);
        close(saved_);
    }
    int master_ = -1, saved_ = -1;
};

TEST(Progress, DrawsOnATerminalAndClearsTheLine) {
    Terminal terminal;
    if (!terminal.ok()) GTEST_SKIP() << "no pseudo terminal available";
    std::string drawn;
    {
        ProgressBar bar("packing", 1000, Unit::Items);
        for (uint64_t i = 0; i <= 1000; i++) bar.update(i);  // far quicker than a tenth of a second
        drawn = terminal.take();
    }
    EXPECT_TRUE(drawn.starts_with("\rpacking [")) << drawn;
    EXPECT_LE(std::count(drawn.begin(), drawn.end(), '\r'), 3);
    EXPECT_EQ(terminal.take(), "\r\033[K");
    {
        ProgressBar bar("packing", 1000, Unit::Items, false);
        bar.update(1);
    }
    EXPECT_EQ(terminal.take(), "");
}

}  // namespace
}  // namespace tessera
