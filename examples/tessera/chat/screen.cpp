// Colours begin and end with each piece that is written, so that nothing which ends the program leaves the
// terminal coloured. Reasoning is dimmed, or stands between two lines where there are no colours.
#include "examples/tessera/chat/screen.h"

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

Result<void> Screen::content(std::string_view text) {
    if (text.empty()) return {};
    if (in_reasoning_) {
        TSR_TRY_VOID(end_answer());
        if (is_terminal_ && !colours_) TSR_TRY_VOID(console::print("(answer)\n"));
    }
    line_open_ = !text.ends_with('\n');
    return console::print(is_terminal_ ? harmless(text) : std::string(text));
}

Result<void> Screen::reasoning(std::string_view text) {
    if (text.empty()) return {};
    if (!in_reasoning_ && is_terminal_ && !colours_) TSR_TRY_VOID(console::print("(reasoning)\n"));
    in_reasoning_ = true;
    line_open_ = !text.ends_with('\n');
    if (colours_) return console::print(kDim + harmless(text) + kPlain);
    if (is_terminal_) return console::print(harmless(text));
    if (console::verbosity() != console::Verbosity::Quiet) std::fwrite(text.data(), 1, text.size(), stderr);
    return {};
}

Result<void> Screen::end_answer() {
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
        const std::string shown = harmless(line);
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
