#pragma once
// The program's streams and signals: checked output, whole-file input, interruption as a flag, log lines.
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "common/progress.h"

namespace tessera::console {

/// Must be called once, before anything else: keeps files that are opened later off the descriptors of closed
/// standard streams, and turns signals of failed writes into errors of write().
void prepare();

/// Which log messages go to standard error.
enum class Verbosity { Quiet, Normal, Verbose };
void set_verbosity(Verbosity verbosity);
Verbosity verbosity();

bool is_terminal(int fd);

/// Writes the whole text to standard output, unbuffered. Errors: Io with the system's message. When the
/// reader has closed the pipe, stdout_gone() is true from then on, and the program ends without a message.
Result<void> print(std::string_view text);
bool stdout_gone();

/// One line to standard error, unless the program is quiet.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// A function that draws a progress bar, if standard error is a terminal and the program not quiet. The bar
/// is cleared when the last copy of the function is destroyed.
ByteProgress byte_bar(const char* label);

/// Writes all bytes to a descriptor; `name` is for the error.
Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& name);

/// All bytes of a file, or of standard input for "-".
Result<std::string> read_all(const std::string& path);

/// A text file's bytes. Errors: those of read_all(), or Malformed with the offset of the first byte that is
/// not UTF-8.
Result<std::string> read_text(const std::string& path);

/// The same check for a text from elsewhere, which `name` describes.
Result<void> check_utf8(std::string_view text, const std::string& name);

/// Says that the file `out` will be replaced, if it exists. For commands, before they begin the new one.
void note_replacement(const std::string& out);

/// Writes a file that appears under its name when it is complete, in place of an earlier one.
Result<void> write_file(const std::string& path, std::string_view text);

/// Which signals an InterruptGuard catches.
enum class Signals {
    CtrlC,   ///< SIGINT
    Ending,  ///< SIGINT, SIGTERM and SIGHUP: for commands that write files
};

/// From here on Ctrl-C ends the process with the message "tessera COMMAND: interrupted" and status 130,
/// except where an InterruptGuard lives. Does nothing if the caller has the process ignore SIGINT.
void end_on_interrupt(const std::string& command);

/// While it lives, the first signal sets the flag and a second one of the same kind ends the process. One at
/// a time.
class InterruptGuard {
  public:
    explicit InterruptGuard(Signals signals = Signals::CtrlC);
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    /// For ThreadPool::set_abort_flag; lives as long as the program.
    static const std::atomic<bool>& flag();
    static bool interrupted() { return flag().load(std::memory_order_relaxed); }
    /// The signal that set the flag last, or 0.
    static int signal();
};

/// The error of a command that was to write `out`, after an interruption under the name that the user knows.
Error name_output(Error error, const std::string& out);

/// One JSON object for --json, else the text as a note on standard error.
Result<void> report(bool as_json, const std::string& json, const std::string& text);

/// The path of a file or folder of the user's state: $XDG_STATE_HOME/tessera/NAME, or else under
/// ~/.local/state (XDG Base Directory Specification). Empty if neither variable is set.
std::string state_path(std::string_view name);

}  // namespace tessera::console
