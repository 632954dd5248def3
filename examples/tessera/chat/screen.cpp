// Colours begin and end with each piece that is written, so that the terminal is not left coloured, however
// the program ends. Reasoning is dimmed; without colours it stands between two marker lines.
#include "examples/tessera/chat/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "common/utf8.h"
#include "examples/tessera/console.h"

namespace tessera::repl {

namespace {

constexpr const char* kDim = "\033[2m";
constexpr const char* kRed = "\033[31m";
constexpr const char* kPlain = "\033[0m";

}  // namespace

std::string harmless(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const utf8::Decoded next = utf8::decode(text);
        const bool is_control =
            (next.code_point < 0x20 && next.code_point != '\n' && next.code_point != '\t') ||
            (next.code_point >= 0x7f && next.code_point < 0xa0);
        for (const char c : text.substr(0, next.n_bytes)) {
            if (!next.valid || is_control)
                out += strf("\\x%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
            else
                out += c;
        }
        text.remove_prefix(next.n_bytes);
    }
    return out;
}

size_t Screen::width() const {
    constexpr size_t kUsual = 80;
    if (!is_terminal_) return 0;
    winsize size{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

/// A piece of the answer with line breaks for the terminal.
std::string Screen::broken(std::string_view text) {
    return is_terminal_ ? wrap_.push(harmless(text), wraps_ ? width() : 0) : std::string(text);
}

Result<void> Screen::content(std::string_view text) {
    if (text.empty()) return {};
    if (in_reasoning_) {
        TSR_TRY_VOID(end_answer());
        if (is_terminal_ && !colours_) TSR_TRY_VOID(console::print("(answer)\n"));
    }
    line_open_ = !text.ends_with('\n');
    return console::print(broken(text));
}

Result<void> Screen::reasoning(std::string_view text) {
    if (text.empty()) return {};
    if (!in_reasoning_) TSR_TRY_VOID(console::print(wrap_.finish()));
    if (!in_reasoning_ && is_terminal_ && !colours_) TSR_TRY_VOID(console::print("(reasoning)\n"));
    in_reasoning_ = true;
    line_open_ = !text.ends_with('\n');
    if (colours_) return console::print(kDim + broken(text) + kPlain);
    if (is_terminal_) return console::print(broken(text));
    if (console::verbosity() != console::Verbosity::Quiet) std::fwrite(text.data(), 1, text.size(), stderr);
    return {};
}

Result<void> Screen::call(std::string_view line) {
    TSR_TRY_VOID(end_answer());
    return console::print(is_terminal_ ? harmless(line) : std::string(line));
}

Result<void> Screen::end_answer() {
    const std::string rest = wrap_.finish();
    if (!rest.empty()) TSR_TRY_VOID(console::print(in_reasoning_ && colours_ ? kDim + rest + kPlain : rest));
    const bool open = line_open_, on_stderr = in_reasoning_ && !is_terminal_;
    line_open_ = in_reasoning_ = false;
    if (!open) return {};
    if (!on_stderr) return console::print("\n");
    if (console::verbosity() != console::Verbosity::Quiet) std::fputs("\n", stderr);
    return {};
}

Result<void> Screen::print(std::string_view lines) {
    return console::print(is_terminal_ ? harmless(lines) : std::string(lines));
}

Result<void> Screen::aside(const char* style, std::string_view line) {
    if (is_terminal_) {
        const std::string shown = wrapped(harmless(line), width());
        return console::print(colours_ ? style + shown + kPlain + "\n" : shown + "\n");
    }
    console::note("%s", std::string(line).c_str());
    return {};
}

Result<void> Screen::note(std::string_view line) {
    if (console::verbosity() == console::Verbosity::Quiet) return {};
    return aside(kDim, line);
}

Result<void> Screen::error(std::string_view message) { return aside(kRed, "error: " + std::string(message)); }

}  // namespace tessera::repl
