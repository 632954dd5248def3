#pragma once
// A model's answer, as it streams, to content, reasoning and tool calls. The formats are data (formats.h).
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/text/chat/parsers/call_stream.h"
#include "src/text/chat/parsers/formats.h"

namespace tessera::chat {

/// What a piece of the stream added. Pieces of the same kind in a row may come apart anywhere.
struct Delta {
    /// A call comes whole, or, with ParserOptions::stream_calls, as its beginning and any number of
    /// arguments.
    enum class Kind { Content, Reasoning, Call, CallBegin, CallArguments };
    Kind kind = Kind::Content;
    std::string text;  ///< Content, Reasoning, CallArguments
    size_t call_index =
        0;  ///< of Answer::calls: Call, which is complete now; CallBegin, whose name and id are
};

struct ParserOptions {
    /// The tools of the request: types of arguments, and whether an answer may be a bare call.
    jinja::Value tools = jinja::Value::none();
    /// Prompt::opening: tells whether the answer begins inside the reasoning.
    std::string opening;
    /// ChatTemplate::turn_end(): where the answer ends, if the marker itself shows up.
    std::string turn_end;
    /// Calls of these tools whose arguments are JSON are told of as they are written, and are calls from then
    /// on: where one breaks off, its arguments are the text so far, and a note says so.
    bool stream_calls = false;
    bool no_calls = false;  ///< what looks like a call is content
    /// Reasoning is content, with its marks: also with the one that the opening ends with.
    bool keep_reasoning = false;
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
    /// But for the first n_known, of which deltas have told.
    void add_calls(std::vector<ToolCall> calls, size_t n_known = 0);
    /// What the stream saw in one more byte of a call. True where a call begins.
    bool add_step(CallStream::Step step, const CallStream& stream, char c);
    void note_broken(const char* why);

    Answer answer_;
    std::vector<Delta> deltas_;
};

}  // namespace tessera::chat
