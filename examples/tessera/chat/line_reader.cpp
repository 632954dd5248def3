// Lines without editing, and the history file. editor.cpp has the reader for terminals that can move the
// cursor.
#include "examples/tessera/chat/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/strings.h"
#include "common/utf8.h"
#include "examples/tessera/console.h"

namespace tessera::repl {

namespace {

class PlainReader : public LineReader {
  public:
    explicit PlainReader(bool shows_prompt) : shows_prompt_(shows_prompt) {}

    Result<Input> read(const std::string& prompt, const std::string&) override {
        if (shows_prompt_) TSR_TRY_VOID(show(prompt));
        // On a terminal Ctrl-C removes the line; with a pipe it ends the program, as usual.
        std::optional<console::InterruptGuard> guard;
        if (console::is_terminal(STDIN_FILENO)) guard.emplace();
        size_t searched = 0;
        for (;;) {
            const size_t end = pending_.find('\n', searched);
            if (end != std::string::npos) return take(end, end + 1);
            searched = pending_.size();
            char buffer[1 << 16];
            const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
            if (n < 0 && errno == EINTR) {
                if (!guard || !console::InterruptGuard::interrupted()) continue;
                pending_.clear();
                TSR_TRY_VOID(end_line());
                return Input{Input::Kind::Interrupt, ""};
            }
            if (n < 0)
                return fail(ErrorCode::Io, "cannot read standard input: %s",
                            std::generic_category().message(errno).c_str());
            if (n == 0 && pending_.empty()) {
                TSR_TRY_VOID(end_line());
                return Input{Input::Kind::End, ""};
            }
            if (n == 0) return take(pending_.size(), pending_.size());
            pending_.append(buffer, static_cast<size_t>(n));
        }
    }

    void remember(const std::string&) override {}
    bool edits() const override { return false; }

  private:
    static Result<void> show(const std::string& text) {
        const bool to_stdout = console::is_terminal(STDOUT_FILENO);
        return console::write_all(to_stdout ? STDOUT_FILENO : STDERR_FILENO, std::as_bytes(std::span(text)),
                                  to_stdout ? "standard output" : "standard error");
    }
    /// Ends the prompt's line where the user has not: the next output begins a line.
    Result<void> end_line() { return shows_prompt_ ? show("\n") : Result<void>(); }

    /// The first `n` bytes without a carriage return at their end; the bytes from `next` on stay pending.
    Result<Input> take(size_t n, size_t next) {
        std::string line = pending_.substr(0, n);
        pending_.erase(0, next);
        if (line.ends_with('\r')) line.pop_back();
        TSR_TRY_VOID(console::check_utf8(line, "standard input"));
        return Input{Input::Kind::Text, std::move(line)};
    }

    bool shows_prompt_;
    std::string pending_;
};

/// A text as one line of the file; unescaped() is the inverse.
std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\n')
            out += "\\n";
        else if (c == '\\')
            out += "\\\\";
        else
            out += c;
    }
    return out;
}

std::string unescaped(std::string_view line) {
    std::string out;
    for (size_t i = 0; i < line.size(); i++) {
        if (line[i] != '\\' || i + 1 == line.size()) {
            out += line[i];
            continue;
        }
        i++;
        out += line[i] == 'n' ? '\n' : line[i];
    }
    return out;
}

std::string joined(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += escaped(text) + "\n";
    return out;
}

}  // namespace

std::unique_ptr<LineReader> make_plain_reader(bool shows_prompt) {
    return std::make_unique<PlainReader>(shows_prompt);
}

std::string HistoryFile::default_path() { return console::state_path("history"); }

Result<std::vector<std::string>> HistoryFile::load() {
    std::error_code ignored;
    if (path_.empty() || !std::filesystem::exists(path_, ignored)) return std::vector<std::string>();
    TSR_TRY(const std::string all, console::read_all(path_));
    std::vector<std::string> out;
    for (const std::string_view line : split(all, '\n')) {
        const bool is_text = utf8::is_valid(line) && line.find('\0') == std::string_view::npos;
        if (!line.empty() && is_text) out.push_back(unescaped(line));
    }
    if (out.size() <= kMost) return out;
    const bool is_long = out.size() > 2 * kMost;
    out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(kMost));
    if (is_long) {
        std::filesystem::resize_file(path_, 0, ignored);
        if (!ignored) TSR_TRY_VOID(append_lines(joined(out)));
    }
    return out;
}

Result<void> HistoryFile::append(const std::string& text) {
    return path_.empty() ? Result<void>() : append_lines(joined({text}));
}

Result<void> HistoryFile::append_lines(const std::string& lines) {
    std::error_code ignored;
    const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
    if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
    const std::string name = "'" + printable(path_, 400) + "'";
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return fail(ErrorCode::Io, "cannot open the history %s: %s", name.c_str(),
                    std::generic_category().message(errno).c_str());
    const Result<void> written = console::write_all(fd, std::as_bytes(std::span(lines)), name);
    ::close(fd);
    return written;
}

}  // namespace tessera::repl
