// Owns one line of the terminal on standard error while an operation runs. Silent unless standard error is a
// terminal. Used from one thread; drawn at most ten times per second.
#include "common/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "common/clock.h"
#include "common/expected.h"
#include "common/strings.h"
#include "common/utf8.h"

namespace tessera {

namespace {

constexpr double kDrawInterval = 0.1;  // seconds
constexpr int kMinBar = 10;            // columns; a narrower bar is of no use

// One column less than the terminal has: a full line would make it wrap.
int terminal_width() {
    struct winsize size {};
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col - 1 : 79;
}

std::string format_amount(double amount, ProgressBar::Unit unit) {
    amount = std::clamp(amount, 0.0, 1e18);
    if (unit == ProgressBar::Unit::Bytes) return format_bytes(static_cast<uint64_t>(amount));
    return strf(amount < 99.95 && amount != static_cast<double>(static_cast<int>(amount)) ? "%.1f" : "%.0f",
                amount);
}

std::string format_duration(double seconds) {
    const auto s = static_cast<long>(std::clamp(seconds, 0.0, 359999.0));  // at most 99:59:59
    if (s >= 3600) return strf("%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    return strf("%ld:%02ld", s / 60, s % 60);
}

size_t count_columns(std::string_view text) {
    return static_cast<size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string cut_columns(std::string_view text, size_t n_columns) {
    size_t at = 0;
    for (; at < text.size() && n_columns > 0; n_columns--) at += utf8::decode(text.substr(at)).n_bytes;
    return std::string(text.substr(0, at)) + std::string(n_columns, ' ');
}

}  // namespace

ProgressBar::ProgressBar(std::string label, uint64_t total, Unit unit, bool enabled)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      enabled_(enabled && isatty(STDERR_FILENO) == 1),
      start_(now_seconds()) {}

ProgressBar::~ProgressBar() {
    if (!drawn_) return;
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
}

void ProgressBar::update(uint64_t done) {
    if (!enabled_) return;
    const double now = now_seconds();
    if (drawn_ && now - last_draw_ < kDrawInterval) return;
    last_draw_ = now;
    drawn_ = true;
    std::fprintf(stderr, "\r%s", render(label_, done, total_, unit_, now - start_, terminal_width()).c_str());
    std::fflush(stderr);
}

std::string ProgressBar::render(const std::string& label, uint64_t done, uint64_t total, Unit unit,
                                double seconds, int width) {
    const char* per_second = unit == Unit::Bytes ? "/s" : unit == Unit::Tokens ? " tokens/s" : " items/s";
    const double rate = seconds >= kDrawInterval ? static_cast<double>(done) / seconds : 0;
    const std::string speed = rate > 0 ? format_amount(rate, unit) + per_second : "-";
    const std::string amount = format_amount(static_cast<double>(done), unit);
    const size_t columns = static_cast<size_t>(std::max(width, 0));
    const std::string name = printable(label, columns);
    if (total == 0)
        return cut_columns(name + "  " + amount + "  " + speed + "  " + format_duration(seconds), columns);

    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    const double left = static_cast<double>(total - std::min(done, total));
    const std::string eta = rate > 0 ? format_duration(left / rate) : "-:--";
    const std::string facts = strf(" %3d%%  ", static_cast<int>(share * 100)) + amount + "/" +
                              format_amount(static_cast<double>(total), unit) + "  " + speed + "  " + eta +
                              " left";
    const size_t taken = count_columns(name) + facts.size() + 3;  // " [" and "]"
    if (columns < taken + kMinBar) return cut_columns(name + facts, columns);
    const size_t bar = columns - taken;
    const size_t filled = static_cast<size_t>(share * static_cast<double>(bar));
    return name + " [" + std::string(filled, '#') + std::string(bar - filled, '.') + "]" + facts;
}

}  // namespace tessera
