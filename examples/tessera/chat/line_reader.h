#pragma once
// What the user types, pastes or pipes in, a line or more at a time, and the history of it.
#include <memory>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera::repl {

struct Input {
    enum class Kind { Text, End, Interrupt };
    Kind kind = Kind::End;
    std::string text;  ///< without the last line feed; several lines where several were pasted at once
};

/// One thread at a time.
class LineReader {
  public:
    virtual ~LineReader() = default;
    /// The next line. `prefill` stands in it already, where lines can be edited. Errors: the system does not
    /// let it be read, or it is no UTF-8.
    virtual Result<Input> read(const std::string& prompt, const std::string& prefill) = 0;
    /// Puts a text into the history.
    virtual void remember(const std::string& text) = 0;
    /// Whether `prefill` shows.
    virtual bool edits() const = 0;
};

/// Reads standard input as it is: from pipes, and from terminals that cannot move the cursor. `shows_prompt`:
/// the prompt goes to standard output, or to standard error where that is no terminal.
std::unique_ptr<LineReader> make_plain_reader(bool shows_prompt);

/// Texts that were entered, in a file of one line each. Several programs may append to it at once.
class HistoryFile {
  public:
    /// An empty path keeps nothing.
    explicit HistoryFile(std::string path) : path_(std::move(path)) {}

    /// The last texts, the oldest first; none where there is no file. A file that has grown to twice their
    /// number is cut.
    Result<std::vector<std::string>> load();
    /// Appends a text, making the file, which nobody else may read, and its folder where they are missing.
    Result<void> append(const std::string& text);
    const std::string& path() const { return path_; }

    static constexpr size_t kMost = 2000;
    /// $XDG_STATE_HOME/tessera/history, or ~/.local/state/tessera/history; empty where neither is set.
    static std::string default_path();

  private:
    Result<void> append_lines(const std::string& lines);

    std::string path_;
};

/// Edits lines with libedit, on a terminal. Pasted texts come whole. `commands` are completed by Tab. Errors:
/// the terminal cannot be used; the history cannot be read.
Result<std::unique_ptr<LineReader>> make_editor(HistoryFile history, std::vector<std::string> commands,
                                                bool colours);

}  // namespace tessera::repl
