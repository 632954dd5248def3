// A state machine over the bytes of one call's body. It recognizes the forms of tool_call_bodies_json.cpp in
// which the name comes first and the arguments are an object, as models write them and grammars enforce them;
// everything else is left to the parser of the complete body. Next: output_parser.cpp, the user.
#include "src/text/chat/parsers/call_stream.h"

#include <algorithm>

#include "common/strings.h"
#include "src/text/chat/dialogue.h"

namespace tessera::chat {

namespace {

constexpr size_t kMaxText = 256;  // bytes of a key, a name or an id

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), text) != words.end();
}

}  // namespace

bool names_a_tool(const jinja::Value& tools, std::string_view name) {
    if (!tools.is_sequence()) return false;
    return std::any_of(tools.items().begin(), tools.items().end(), [&](const jinja::Value& tool) {
        const jinja::Value* function = tool.find("function");
        return function && text_member(*function, "name") == name;
    });
}

void CallStream::begin(ReadBody read) {
    const bool named = read == read_named_calls;
    state_ = named || read == read_json_calls || read == read_python_tag ? State::Between : State::Lost;
    text_.clear();
    in_object_ = !named;  // without a name a header may come first
}

void CallStream::begin_arguments(std::string_view name) {
    state_ = State::BeforeArguments;
    name_ = name;
    id_.clear();
    begun_ = in_object_ = false;
}

CallStream::Step CallStream::begin_call() {
    if (begun_ || !names_a_tool(*tools_, name_)) {
        state_ = State::Lost;
        return Step::Nothing;
    }
    state_ = State::Arguments;
    begun_ = true;
    depth_ = 1;
    in_string_ = escaped_ = false;
    return Step::Begin;
}

CallStream::Step CallStream::arguments(char c) {
    if (in_string_) {
        in_string_ = escaped_ || c != '"';
        escaped_ = !escaped_ && c == '\\';
    } else if (c == '"') {
        in_string_ = true;
    } else if (c == '{' || c == '[') {
        depth_++;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
        state_ = in_object_ ? State::AfterValue : State::Lost;
    }
    return Step::Argument;
}

/// Whether the text ends; texts with escapes or too long are left to the parser of the complete body.
bool CallStream::is_text_end(char c) {
    if (c == '"') return true;
    text_ += c;
    if (c == '\\' || text_.size() > kMaxText) state_ = State::Lost;
    return false;
}

CallStream::Step CallStream::value(char c) {
    if (is_one_of(key_, {"arguments", "parameters", "args"})) {
        if (c == '{') return begin_call();
        state_ = State::Lost;
    } else {
        const bool known = is_one_of(key_, {"name", "tool_name", "id", "tool_call_id", "call_id", "type"});
        state_ = c == '"' && known ? State::Text : State::Lost;
        text_.clear();
    }
    return Step::Nothing;
}

/// name, name[ARGS] or name[CALL_ID]id[ARGS] in front of the arguments.
void CallStream::header_ends() {
    std::string_view text = text_;
    if (text.ends_with("[ARGS]")) text.remove_suffix(6);
    const size_t mark = text.find("[CALL_ID]");
    name_ = trim(text.substr(0, mark));
    id_ = mark == std::string_view::npos ? "" : std::string(trim(text.substr(mark + 9)));
    begun_ = false;
}

CallStream::Step CallStream::push(char c) {
    const State before = state_;
    if (before == State::Lost) return Step::Nothing;
    if (before == State::Arguments) return arguments(c);
    if (before == State::Key) {
        if (is_text_end(c)) {
            key_ = text_;
            state_ = State::AfterKey;
        }
        return Step::Nothing;
    }
    if (before == State::Text) {
        if (!is_text_end(c)) return Step::Nothing;
        if (is_one_of(key_, {"name", "tool_name"}))
            name_ = text_;
        else if (key_ != "type")
            id_ = text_;
        state_ = State::AfterValue;
        return Step::Nothing;
    }
    if (before == State::Header) {
        if (c == '{') {
            header_ends();
            return begin_call();
        }
        if ((text_ += c).size() > kMaxText) state_ = State::Lost;
        return Step::Nothing;
    }
    if (is_space(c)) return Step::Nothing;
    switch (before) {
        case State::Between:
            if (c == '{') {
                state_ = State::BeforeKey;
                in_object_ = true;
                name_.clear();
                id_.clear();
                begun_ = false;
            } else if (c == '[') {
                in_object_ = true;
            } else if (!in_object_) {
                state_ = State::Header;
                text_ = c;
            } else if (c != ']' && c != ',' && c != ';') {
                state_ = State::Lost;
            }
            break;
        case State::BeforeKey:
            state_ = c == '"' ? State::Key : State::Lost;
            text_.clear();
            break;
        case State::AfterKey:
            state_ = c == ':' ? State::BeforeValue : State::Lost;
            break;
        case State::BeforeValue:
            return value(c);
        case State::BeforeArguments:
            if (c == '{') return begin_call();
            state_ = State::Lost;
            break;
        default:  // AfterValue
            state_ = c == ',' ? State::BeforeKey : c == '}' ? State::Between : State::Lost;
    }
    return Step::Nothing;
}

}  // namespace tessera::chat
