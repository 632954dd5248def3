#pragma once
// A streaming parser of a model's answer into content, reasoning and tool calls. The formats are tables
// (formats.h).
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/chat/parsers/call_stream.h"
#include "src/text/chat/parsers/formats.h"

namespace tessera::chat {

/// The result of a piece of the stream. Consecutive deltas of the same kind may be split anywhere.
struct Delta {
    /// A call is reported whole, or, with ParserOptions::stream_calls, as a beginning and any number of
    /// arguments.
    enum class Kind { Content, Reasoning, Call, CallBegin, CallArguments };
    Kind kind = Kind::Content;
    std::string text;       ///< Content, Reasoning, CallArguments
    size_t call_index = 0;  ///< index in Answer::calls: of a Call, which is complete; of a CallBegin, whose
                            ///< name and id are complete
};

struct ParserOptions {
    /// The tools of the request: they give the types of arguments, and allow an answer to be a bare call.
    jinja::Value tools = jinja::Value::none();
    /// Prompt::opening, which determines whether the answer begins inside the reasoning.
    std::string opening;
    /// ChatTemplate::turn_end(): ends the answer if it occurs in the text.
    std::string turn_end;
    /// Reports calls of these tools with JSON arguments while they are streamed. If such a call breaks off,
    /// its arguments are the text so far, with a note.
    bool stream_calls = false;
    bool no_calls = false;  ///< calls are content
    /// Reasoning is content, with its marks, including one at the end of the opening.
    bool keep_reasoning = false;
};

/// Never fails: text that cannot be parsed remains content, with a note. The result does not depend on how
/// the text is split into pieces, since every byte is processed by itself. Not thread-safe.
///
/// The text must contain the spelling of control tokens (DecodeOptions::show_special), which many formats
/// use.
class OutputParser {
  public:
    virtual ~OutputParser() = default;
    OutputParser(const OutputParser&) = delete;
    OutputParser& operator=(const OutputParser&) = delete;

    static std::unique_ptr<OutputParser> make(const Format& format, ParserOptions options);

    /// Takes the next piece; amortized linear time in the text.
    virtual void push(std::string_view text) = 0;
    /// Ends the answer. Nothing may be pushed afterwards.
    virtual void finish() = 0;

    /// The parts that are final so far; complete after finish().
    const Answer& answer() const { return answer_; }
    /// The parts that became final since the last call.
    std::vector<Delta> take_deltas() { return std::exchange(deltas_, {}); }

  protected:
    OutputParser() = default;
    void add_text(Delta::Kind kind, std::string_view text);
    /// Adds calls, without deltas for the first n_known, which were reported before.
    void add_calls(std::vector<ToolCall> calls, size_t n_known = 0);
    /// Reports the step of the stream for one more byte of a call. True if a call begins.
    bool add_step(CallStream::Step step, const CallStream& stream, char c);
    void note_broken(const char* why);

    Answer answer_;
    std::vector<Delta> deltas_;
};

}  // namespace tessera::chat
