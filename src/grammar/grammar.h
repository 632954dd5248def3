#pragma once
// Grammars for constrained output, from GBNF, regular expressions, JSON schemas and tool lists.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/grammar/automaton.h"

namespace tessera::grammar {

/// White space in generated JSON.
enum class JsonLayout {
    Free,     ///< a space, or a line break with up to 20 blanks, wherever JSON allows white space
    Compact,  ///< no white space, so that more of the output is forced
};

struct SchemaOptions {
    JsonLayout layout = JsonLayout::Free;
};

/// Marks of the reasoning that a model may write in front of the constrained output.
struct Reasoning {
    std::string begin, end;  ///< empty: none
    bool is_open = false;    ///< the prompt already contains `begin`
};

/// A tool the model may call.
struct ToolSpec {
    std::string name;
    std::string parameters;  ///< JSON schema of its arguments; empty: any object
};

/// Notation of a call's arguments if they are not a JSON object: a sequence of names and values in the order
/// of the schema's properties. Only properties that the schema lists are written.
struct ArgumentNotation {
    enum class Text {
        Json,    ///< a JSON string
        Plain,   ///< unquoted up to value_end; for properties whose schema has the single type "string"
        Marked,  ///< unescaped between two `quote`s; names inside values are unquoted
    };
    std::string key_begin, key_end, value_end;
    std::string separator;     ///< between two arguments
    std::string text_key_end;  ///< replaces key_end in front of a plain text; empty: key_end
    Text text = Text::Json;
    std::string quote;
    std::vector<std::string> not_in_text;  ///< strings that a plain or marked text must not contain
    bool strips_lines = false;             ///< a plain text must not begin or end with a line feed
    bool python_words = false;             ///< True, False, None
};

/// The format of tool calls: a JSON object between marks, or a name followed by arguments.
struct ToolGrammar {
    std::vector<ToolSpec> tools;
    /// Strings that begin a call, e.g. "<tool_call>". Without any, the output is either calls from its first
    /// byte, or text that begins with neither a bracket nor white space.
    std::vector<std::string> triggers;
    std::string before, after;  ///< around each call; `before` follows the trigger
    std::string name_key = "name", arguments_key = "arguments";
    std::string separator = "\n";  ///< between a call and the next trigger
    std::string list_separator;    ///< not empty: separator of further calls between `before` and `after`
    bool is_list = false;          ///< further calls between `before` and `after` without a separator
    /// Not empty: a call is call_begin, the unquoted name, this, the arguments and call_end. Empty: a call is
    /// a JSON object with the keys name_key and arguments_key.
    std::string name_end;
    std::string call_begin, call_end;
    std::optional<ArgumentNotation> arguments;  ///< unset: a JSON object
    std::string last;                           ///< may follow the last call
    std::string forbidden;  ///< begins calls in a format that cannot be constrained; excluded from free text
    bool parallel = false;  ///< allow several calls
    bool required = false;  ///< no text before the first trigger
    bool none = false;      ///< no call at all: text without triggers
    SchemaOptions json;
    Reasoning reasoning;
};

/// Immutable; shared by many matchers and threads.
class Grammar {
  public:
    /// GBNF, the notation of llama.cpp. Errors name line and column.
    static Result<std::shared_ptr<const Grammar>> from_gbnf(std::string_view text,
                                                            const Reasoning& reasoning = {});
    /// A regular expression that the whole output matches. Errors name the position.
    static Result<std::shared_ptr<const Grammar>> from_regex(std::string_view pattern,
                                                             const Reasoning& reasoning = {});
    /// JSON that is valid under a schema (draft 2020-12). Errors name the JSON pointer: of a keyword that
    /// cannot be enforced (Unsupported), of a broken one (Malformed), of a schema that nothing satisfies
    /// (InvalidArgument).
    static Result<std::shared_ptr<const Grammar>> from_json_schema(std::string_view schema,
                                                                   const SchemaOptions& options = {},
                                                                   const Reasoning& reasoning = {});
    /// Any JSON object.
    static Result<std::shared_ptr<const Grammar>> json_object(const SchemaOptions& options = {},
                                                              const Reasoning& reasoning = {});
    /// Text until a trigger, then a call of one of the tools.
    static Result<std::shared_ptr<const Grammar>> from_tools(const ToolGrammar& tools);
    static Result<std::shared_ptr<const Grammar>> create(const Program& program);

    const Automaton& automaton() const { return automaton_; }

  private:
    explicit Grammar(Automaton automaton) : automaton_(std::move(automaton)) {}
    Automaton automaton_;
};

}  // namespace tessera::grammar
