// Owns the process's streams and signal handlers. Standard output is written with write(2), unbuffered: text
// appears at once, and a full disk or a closed pipe is an error of the write that meets it.
#include "examples/tessera/console.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "common/log.h"
#include "common/strings.h"
#include "common/utf8.h"
#include "examples/tessera/terminal.h"
#include "ggml-like/gguf/output_file.h"

namespace tessera::console {

namespace {

std::atomic<bool> interrupt_flag{false};
std::atomic<int> last_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
std::string interruption;  // the message of end_on_interrupt()

Verbosity current_verbosity = Verbosity::Normal;
bool reader_gone = false;
constexpr size_t kMaxText = size_t{1} << 30;  // a larger input is a device or a mistaken file
constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};
struct sigaction earlier_actions[std::size(kEndingSignals)];  // while an InterruptGuard lives
size_t n_caught = 0;                                          // the first of them

// A signal handler may touch lock-free atomics and call write() and _exit(), but little else.
void on_interrupt(int signal) {
    last_signal.store(signal, std::memory_order_relaxed);
    interrupt_flag.store(true, std::memory_order_relaxed);
}

void end_at_once(int signal) {
    [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, interruption.data(), interruption.size());
    ::_exit(128 + signal);
}

std::string system_message(int error) { return std::generic_category().message(error); }

/// One write, so that lines of several processes do not mix; and on a terminal over the progress bar.
void print_error_line(const std::string& line) {
    const std::string whole = (is_screen(STDERR_FILENO) ? "\r\033[K" : "") + line + "\n";
    std::fputs(whole.c_str(), stderr);
    std::fflush(stderr);
}

void log_sink(log::Level level, std::string_view message) {
    const bool is_report = level == log::Level::Debug || level == log::Level::Info;
    if (current_verbosity == Verbosity::Quiet) return;
    if (is_report && current_verbosity != Verbosity::Verbose) return;
    const char* prefix = is_report ? "" : level == log::Level::Warn ? "warning: " : "error: ";
    print_error_line(prefix + std::string(message));
}

}  // namespace

void prepare() {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        // Opened read-only, so that writing to a closed stream stays an error.
        if (::fcntl(fd, F_GETFD) == -1 && errno == EBADF) (void)::open("/dev/null", O_RDONLY);
    }
    // A closed pipe and a limit on file sizes then are errors of write(), whose messages name the file.
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
    log::set_sink(log_sink);
}

void set_verbosity(Verbosity verbosity) { current_verbosity = verbosity; }

Verbosity verbosity() { return current_verbosity; }

bool is_terminal(int fd) { return ::isatty(fd) == 1; }

bool is_screen(int fd) {
    const char* kind = std::getenv("TERM");
    return is_terminal(fd) && kind && *kind && std::string_view(kind) != "dumb";
}

ByteProgress byte_bar(const char* label) {
    // Made at once, since the rate counts from here; drawn at the first call.
    auto bar = std::make_shared<ProgressBar>(label, 0, ProgressBar::Unit::Bytes,
                                             verbosity() != Verbosity::Quiet && is_screen(STDERR_FILENO));
    return [bar = std::move(bar)](uint64_t done, uint64_t total) { bar->update(done, total); };
}

Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& name) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            if (fd == STDOUT_FILENO && errno == EPIPE) reader_gone = true;
            return fail(ErrorCode::Io, "cannot write to %s: %s", name.c_str(), system_message(errno).c_str());
        }
        bytes = bytes.subspan(static_cast<size_t>(n));
    }
    return {};
}

Result<void> print(std::string_view text) {
    return write_all(STDOUT_FILENO, std::as_bytes(std::span(text)), "standard output");
}

bool stdout_gone() { return reader_gone; }

void note(const char* format, ...) {
    if (current_verbosity == Verbosity::Quiet) return;
    va_list args;
    va_start(args, format);
    print_error_line(vstrf(format, args));
    va_end(args);
}

Result<std::string> read_all(const std::string& path) {
    const bool is_stdin = path == "-";
    const std::string name = is_stdin ? "standard input" : "'" + printable(path, 400) + "'";
    const int fd = is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(ErrorCode::Io, "cannot open %s: %s", name.c_str(), system_message(errno).c_str());
    std::string text;
    char buffer[1 << 16];
    int error = 0;
    for (;;) {
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) error = errno;
        if (n <= 0) break;
        text.append(buffer, static_cast<size_t>(n));
        if (text.size() > kMaxText) error = EFBIG;
        if (error) break;
    }
    if (!is_stdin) ::close(fd);
    if (error) return fail(ErrorCode::Io, "cannot read %s: %s", name.c_str(), system_message(error).c_str());
    return text;
}

Result<void> check_utf8(std::string_view text, const std::string& name) {
    for (size_t at = 0; at < text.size();) {
        const utf8::Decoded next = utf8::decode(text.substr(at));
        if (!next.valid)
            return fail(ErrorCode::Malformed,
                        "%s: expected text in UTF-8, found the byte 0x%02X at offset %zu", name.c_str(),
                        static_cast<unsigned>(static_cast<unsigned char>(text[at])), at);
        at += next.n_bytes;
    }
    return {};
}

Result<std::string> read_text(const std::string& path) {
    TSR_TRY(std::string text, read_all(path));
    TSR_TRY_VOID(check_utf8(text, "'" + printable(path, 400) + "'"));
    return text;
}

void note_replacement(const std::string& out) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(out, ignored))
        note("%s exists; it is replaced when the new file is complete", printable(out, 400).c_str());
}

Result<void> write_file(const std::string& path, std::string_view text) {
    gguf::OutputFile file;
    TSR_TRY_VOID(file.create(path));
    TSR_TRY_VOID(file.append(std::as_bytes(std::span(text))));
    return file.commit();
}

void end_on_interrupt(const std::string& command) {
    interruption = (is_screen(STDERR_FILENO) ? "\r\033[K" : "") + ("tessera " + command + ": interrupted\n");
    struct sigaction earlier = {};
    ::sigaction(SIGINT, nullptr, &earlier);
    if (earlier.sa_handler == SIG_IGN) return;
    struct sigaction action = {};
    action.sa_handler = end_at_once;
    ::sigaction(SIGINT, &action, nullptr);
}

InterruptGuard::InterruptGuard(Signals signals) {
    interrupt_flag.store(false, std::memory_order_relaxed);
    n_caught = signals == Signals::CtrlC ? 1 : std::size(kEndingSignals);
    for (size_t i = 0; i < n_caught; i++) {
        ::sigaction(kEndingSignals[i], nullptr, &earlier_actions[i]);
        if (earlier_actions[i].sa_handler == SIG_IGN)
            continue;  // set by the shell for a background job, or nohup
        struct sigaction action = {};
        action.sa_handler = on_interrupt;
        action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second one has its usual effect
        ::sigaction(kEndingSignals[i], &action, nullptr);
    }
}

InterruptGuard::~InterruptGuard() {
    for (size_t i = 0; i < n_caught; i++) ::sigaction(kEndingSignals[i], &earlier_actions[i], nullptr);
}

const std::atomic<bool>& InterruptGuard::flag() { return interrupt_flag; }

int InterruptGuard::signal() { return last_signal.load(std::memory_order_relaxed); }

Error name_output(Error error, const std::string& out) {
    if (error.code == ErrorCode::Cancelled)
        error.message = "interrupted; '" + printable(out, 400) + "' was not written";
    return error;
}

Result<void> report(bool as_json, const std::string& json, const std::string& text) {
    if (as_json) return print(json);
    note("%s", text.c_str());
    return {};
}

std::string state_path(std::string_view name) {
    if (const char* state = std::getenv("XDG_STATE_HOME"); state && *state)
        return std::string(state) + "/tessera/" + std::string(name);
    if (const char* home = std::getenv("HOME"); home && *home)
        return std::string(home) + "/.local/state/tessera/" + std::string(name);
    return "";
}

}  // namespace tessera::console
