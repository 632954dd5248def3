#pragma once
// The program's two streams and its signals: checked output, whole-file input, Ctrl-C as a flag, log lines.
#include <atomic>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "common/expected.h"
#include "common/progress.h"

namespace tessera::console {

/// Once, before anything else: a closed standard stream cannot be taken by a file that is opened later, and
/// whatever stops a write is an error of write() instead of a signal.
void prepare();

/// Which log messages go to standard error.
enum class Verbosity { Quiet, Normal, Verbose };
void set_verbosity(Verbosity verbosity);
Verbosity verbosity();

bool is_terminal(int fd);

/// The whole text to standard output, at once. Errors: Io naming what the system said; when the reader has
/// gone away, stdout_gone() is true from then on, and the program ends quietly.
Result<void> print(std::string_view text);
bool stdout_gone();

/// One line to standard error, unless the program is quiet.
void note(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Draws a bar while it is called, if standard error is a terminal and the program not quiet. The bar is
/// cleared when the last copy of the function goes.
ByteProgress byte_bar(const char* label);

/// All bytes to a descriptor; `name` is for the error.
Result<void> write_all(int fd, std::span<const std::byte> bytes, const std::string& name);

/// All bytes of a file, or of standard input for "-".
Result<std::string> read_all(const std::string& path);

/// A text file's bytes; errors as of read_all(), or Malformed with the place of the first byte that is no
/// UTF-8.
Result<std::string> read_text(const std::string& path);

/// The error of read_text() for a text from elsewhere, which `name` says.
Result<void> check_utf8(std::string_view text, const std::string& name);

/// Writes a file that appears under its name when it is complete, in place of an earlier one.
Result<void> write_file(const std::string& path, std::string_view text);

/// While it lives, the first Ctrl-C sets the flag and a second one ends the process. One at a time.
class InterruptGuard {
  public:
    InterruptGuard();
    ~InterruptGuard();
    InterruptGuard(const InterruptGuard&) = delete;
    InterruptGuard& operator=(const InterruptGuard&) = delete;

    /// For ThreadPool::set_abort_flag; lives as long as the program.
    static const std::atomic<bool>& flag();
    static bool interrupted() { return flag().load(std::memory_order_relaxed); }
};

}  // namespace tessera::console
