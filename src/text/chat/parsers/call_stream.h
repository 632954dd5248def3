#pragma once
// Detects the beginning of JSON calls while they are streamed.
#include <string>
#include <string_view>

#include "src/text/chat/parsers/tool_call_bodies.h"

namespace tessera::chat {

/// Whether one of the tools (a list in OpenAI's form, or none) has this name.
bool names_a_tool(const jinja::Value& tools, std::string_view name);

/// Takes the body of a call byte by byte, and detects the beginning of its arguments: after the name of one
/// of the tools, if they are an object. Other forms are never reported, and are parsed when they are
/// complete.
class CallStream {
  public:
    /// The tools must outlive it.
    explicit CallStream(const jinja::Value& tools) : tools_(&tools) {}

    /// Starts a new body, which `read` parses.
    void begin(ReadBody read);
    /// Starts a body that consists only of the arguments of this function.
    void begin_arguments(std::string_view name);

    enum class Step { Nothing, Begin, Argument };
    /// Begin: the byte is the first of the arguments of a call of name(). Argument: it is a further one.
    Step push(char c);

    const std::string& name() const { return name_; }
    /// The id in front of the arguments; mostly empty.
    const std::string& id() const { return id_; }

  private:
    enum class State {
        Lost,       ///< this body is not reported
        Between,    ///< outside of objects
        Header,     ///< name[CALL_ID]id[ARGS]
        BeforeKey,  ///< in an object
        Key,
        AfterKey,
        BeforeValue,
        Text,  ///< a value
        BeforeArguments,
        Arguments,
        AfterValue
    };
    Step value(char c);
    Step arguments(char c);
    Step begin_call();
    void header_ends();
    bool is_text_end(char c);

    const jinja::Value* tools_;
    State state_ = State::Lost;
    std::string key_, text_, name_, id_;
    int depth_ = 0;
    bool in_string_ = false, escaped_ = false, begun_ = false, in_object_ = false;
};

}  // namespace tessera::chat
