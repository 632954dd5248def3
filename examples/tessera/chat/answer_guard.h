#pragma once
// Signals and the terminal's modes while an answer is generated.

namespace tessera::repl {

/// While it lives, Ctrl-C, SIGTERM and SIGHUP only set flags, so that the answer can be kept as far as it
/// came, and a terminal on standard input echoes nothing: text that is typed ahead waits for the next prompt.
/// Ctrl-Z gives the terminal back while the program is stopped. A program that does not react can still be
/// ended: by the third Ctrl-C on a terminal, else by the second. One at a time.
class AnswerGuard {
  public:
    AnswerGuard();
    ~AnswerGuard();
    AnswerGuard(const AnswerGuard&) = delete;
    AnswerGuard& operator=(const AnswerGuard&) = delete;

    /// Whether Ctrl-C was pressed since the guard was made.
    static bool interrupted();
    /// SIGTERM or SIGHUP once one of them has come, else 0; stays set.
    static int ending_signal();
};

}  // namespace tessera::repl
