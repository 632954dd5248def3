#pragma once
// Where a chat's words go: a terminal, with or without colours, or a pipe.
#include <string>
#include <string_view>

#include "common/expected.h"

namespace tessera::repl {

/// On a terminal everything goes to standard output, and what is no text is shown as \xNN: no answer and no
/// file can move the cursor. Elsewhere standard output gets the answers and what commands were asked for,
/// byte for byte, and standard error the rest. One thread at a time.
class Screen {
  public:
    /// `colours`: where there is a terminal that has them.
    Screen(bool is_terminal, bool colours) : is_terminal_(is_terminal), colours_(is_terminal && colours) {}

    bool is_terminal() const { return is_terminal_; }
    bool colours() const { return colours_; }

    /// Parts of an answer as they come. Errors: standard output takes no more.
    Result<void> content(std::string_view text);
    Result<void> reasoning(std::string_view text);
    /// Ends the line that an answer or its reasoning is in.
    Result<void> end_answer();

    /// What a command was asked for; whole lines.
    Result<void> print(std::string_view lines);
    /// What the program has to say; a line without its end.
    Result<void> note(std::string_view line);
    /// An error that the chat survives.
    Result<void> error(std::string_view message);

  private:
    Result<void> aside(const char* style, std::string_view line);

    bool is_terminal_, colours_;
    bool line_open_ = false;  ///< on the stream that answers go to
    bool in_reasoning_ = false;
};

/// `text` with control characters other than line feeds and tabs, and bytes that are no UTF-8, as \xNN.
std::string harmless(std::string_view text);

}  // namespace tessera::repl
