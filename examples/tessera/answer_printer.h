#pragma once
// Parses the answer of a chat while it is generated and prints its parts.
#include <memory>
#include <string_view>

#include "common/expected.h"
#include "examples/tessera/json.h"
#include "src/text/chat/parsers/output_parser.h"

namespace tessera {

/// Content goes to standard output at once; a tool call when it is complete, as one line of JSON. Reasoning
/// goes to standard error, dimmed on a terminal, unless the program is quiet. One thread at a time.
class AnswerPrinter {
  public:
    /// `silent`: prints nothing, for to_json() alone.
    AnswerPrinter(std::unique_ptr<chat::OutputParser> parser, bool silent)
        : parser_(std::move(parser)), silent_(silent) {}

    /// The next piece, including the text of control tokens. Errors: those of writing to standard output.
    Result<void> push(std::string_view text);
    /// After the end or an interruption: prints held-back text, ends the line, and notes text that could not
    /// be parsed. push() must not be called afterwards.
    Result<void> finish();

    /// {"content", "reasoning", "tool_calls", "notes"}; complete after finish().
    Json to_json() const;

  private:
    Result<void> show();
    Result<void> print(std::string_view text);
    void think(std::string_view text);

    std::unique_ptr<chat::OutputParser> parser_;
    bool silent_;
    bool at_line_start_ = true;         // of standard output
    bool reasoning_line_open_ = false;  // on standard error
};

}  // namespace tessera
