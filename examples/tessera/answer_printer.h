#pragma once
// The answer of a chat as it is written: read apart, and each part sent where it belongs.
#include <memory>
#include <string_view>

#include "common/expected.h"
#include "examples/tessera/json.h"
#include "src/text/chat/parsers/output_parser.h"

namespace tessera {

/// Content goes to standard output as it comes; a call when it is complete, as one line of JSON. Reasoning
/// goes to standard error, dimmed on a terminal, unless the program is quiet. One thread at a time.
class AnswerPrinter {
  public:
    /// `silent`: nothing is printed, for who wants to_json() alone.
    AnswerPrinter(std::unique_ptr<chat::OutputParser> parser, bool silent)
        : parser_(std::move(parser)), silent_(silent) {}

    /// The next piece, with control tokens by their spelling. Errors: standard output takes no more.
    Result<void> push(std::string_view text);
    /// The answer is over, or was interrupted: prints what was held back, ends the line, and notes what could
    /// not be read. Nothing may be pushed afterwards.
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
