#pragma once
// Calls in JSON, seen to begin before they are whole.
#include <string>
#include <string_view>

#include "src/text/chat/parsers/tool_call_bodies.h"

namespace tessera::chat {

/// Whether one of the tools (a list in OpenAI's form, or none) has this name.
bool names_a_tool(const jinja::Value& tools, std::string_view name);

/// Takes the inside of a call byte by byte, and tells where arguments begin: behind the name of one of the
/// tools, if they are an object. What is not of this form never begins, and is for the reader of the whole.
class CallStream {
  public:
    /// The tools must outlive it.
    explicit CallStream(const jinja::Value& tools) : tools_(&tools) {}

    /// A new body, of which `read` will make calls.
    void begin(ReadBody read);
    /// A body that is the arguments of this function and nothing else.
    void begin_arguments(std::string_view name);

    enum class Step { Nothing, Begin, Argument };
    /// Begin: the byte is the first of the arguments of a call of name(). Argument: it is one more of them.
    Step push(char c);

    const std::string& name() const { return name_; }
    /// As the model gave it in front of the arguments; mostly empty.
    const std::string& id() const { return id_; }

  private:
    enum class State {
        Lost,       ///< nothing more is told of this body
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
