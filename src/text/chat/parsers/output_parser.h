#pragma once
// A model's answer, as it streams, to content, reasoning and tool calls. The formats are data (formats.h).
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/chat/parsers/formats.h"

namespace tessera::chat {

/// What a piece of the stream added. Pieces of the same kind in a row may come apart anywhere.
struct Delta {
    enum class Kind { Content, Reasoning, Call };
    Kind kind = Kind::Content;
    std::string text;       ///< Content, Reasoning
    size_t call_index = 0;  ///< Call: which of Answer::calls is complete now
};

struct ParserOptions {
    /// The tools of the request: types of arguments, and whether an answer may be a bare call.
    jinja::Value tools = jinja::Value::none();
    /// Prompt::opening: tells whether the answer begins inside the reasoning.
    std::string opening;
    /// ChatTemplate::turn_end(): where the answer ends, if the marker itself shows up.
    std::string turn_end;
};

/// Never fails: what cannot be read stays content, and a note says so. The same text gives the same answer
/// whichever way it is cut into pieces: every byte is taken for itself. One thread at a time.
///
/// The text must hold the spelling of control tokens (DecodeOptions::show_special), which many formats are
/// made of.
class OutputParser {
  public:
    virtual ~OutputParser() = default;
    OutputParser(const OutputParser&) = delete;
    OutputParser& operator=(const OutputParser&) = delete;

    static std::unique_ptr<OutputParser> make(const Format& format, ParserOptions options);

    /// The next piece; cheap, and amortised linear in all pieces together.
    virtual void push(std::string_view text) = 0;
    /// The answer has ended. Nothing may be pushed afterwards.
    virtual void finish() = 0;

    /// All that is certain so far; complete after finish().
    const Answer& answer() const { return answer_; }
    /// What has become certain since the last call.
    std::vector<Delta> take_deltas() { return std::exchange(deltas_, {}); }

  protected:
    OutputParser() = default;
    void add_text(Delta::Kind kind, std::string_view text);
    void add_calls(std::vector<ToolCall> calls);

    Answer answer_;
    std::vector<Delta> deltas_;
};

}  // namespace tessera::chat
