#pragma once
// Input: lines that the user types, pastes or pipes in, their completion and their history.
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::repl {

struct Input {
    enum class Kind { Text, End, Interrupt };
    Kind kind = Kind::End;
    /// Without the last line feed; several lines where several were pasted at once. Of an interrupt the text
    /// that Ctrl-C removed from the line.
    std::string text;
};

/// One thread at a time.
class LineReader {
  public:
    virtual ~LineReader() = default;
    /// The next line, which begins with `prefill` where lines can be edited. Errors: reading fails, or the
    /// line is not UTF-8.
    virtual Result<Input> read(const std::string& prompt, const std::string& prefill) = 0;
    /// Adds a text to the history.
    virtual void remember(const std::string& text) = 0;
    /// Whether lines can be edited.
    virtual bool edits() const = 0;
};

/// Reads standard input without editing: from pipes, and from terminals that cannot move the cursor.
/// `shows_prompt`: the prompt goes to standard output, or to standard error where that is no terminal.
std::unique_ptr<LineReader> make_plain_reader(bool shows_prompt);

/// The texts that were entered, one per line of a file. Several programs may append to it at once.
class HistoryFile {
  public:
    /// An empty path keeps nothing.
    explicit HistoryFile(std::string path) : path_(std::move(path)) {}

    /// The last kMost texts, the oldest first; none where there is no file. A file that has grown to twice
    /// that number is cut.
    Result<std::vector<std::string>> load();
    /// Appends a text. Creates the file, with mode 0600, and its folder where they are missing.
    Result<void> append(const std::string& text);
    const std::string& path() const { return path_; }

    static constexpr size_t kMost = 2000;
    /// $XDG_STATE_HOME/tessera/history, or ~/.local/state/tessera/history; empty where neither is set.
    static std::string default_path();

  private:
    Result<void> append_lines(const std::string& lines);

    std::string path_;
};

/// The candidates for Tab, which replace the end of a line.
struct Completions {
    size_t begin = 0;                ///< offset in the line of the text that they replace
    std::vector<std::string> texts;  ///< each a whole replacement; sorted
};
/// Called with the line up to the cursor.
using Completer = std::function<Completions(std::string_view line)>;

/// Edits lines with libedit, on a terminal. A pasted text is one input, whatever lines it has. Errors: the
/// terminal cannot be used; the history cannot be read.
Result<std::unique_ptr<LineReader>> make_editor(HistoryFile history, Completer completer, bool colours);

}  // namespace tessera::repl
