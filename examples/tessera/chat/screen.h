#pragma once
// The chat's output: to a terminal, with or without colours, or to pipes.
#include <string>
#include <string_view>

#include "common/expected.h"
#include "examples/tessera/chat/word_wrap.h"

namespace tessera::repl {

/// On a terminal everything goes to standard output; control characters are shown as \xNN, so that no answer
/// and no file can move the cursor, and answers break between words at the terminal's width. Elsewhere
/// standard output gets the answers and the results of commands, byte for byte, and standard error the rest.
/// One thread at a time.
class Screen {
  public:
    /// `colours`: whether the terminal has them and the user wants them.
    Screen(bool is_terminal, bool colours) : is_terminal_(is_terminal), colours_(is_terminal && colours) {}

    bool is_terminal() const { return is_terminal_; }
    bool colours() const { return colours_; }
    /// Columns of the terminal; 0: no terminal, lines need no breaks.
    size_t width() const;
    /// Whether answers break between words.
    void set_wrap(bool wraps) { wraps_ = wraps; }

    /// Parts of an answer as they come. Errors: standard output cannot be written to.
    Result<void> content(std::string_view text);
    Result<void> reasoning(std::string_view text);
    /// A call of a tool, as a line of its own.
    Result<void> call(std::string_view line);
    /// Ends the line of the answer or its reasoning, if it is open.
    Result<void> end_answer();

    /// The result of a command; whole lines.
    Result<void> print(std::string_view lines);
    /// A message of the program; a line without its end.
    Result<void> note(std::string_view line);
    /// An error after which the chat continues.
    Result<void> error(std::string_view message);

  private:
    std::string broken(std::string_view text);
    Result<void> aside(const char* style, std::string_view line);

    bool is_terminal_, colours_, wraps_ = true;
    WordWrap wrap_;
    bool line_open_ = false;  ///< on the stream of the answer's current part
    bool in_reasoning_ = false;
};

/// `text` with control characters other than line feeds and tabs, and bytes that are not UTF-8, as \xNN.
std::string harmless(std::string_view text);

}  // namespace tessera::repl
