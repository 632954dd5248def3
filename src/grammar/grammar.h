#pragma once
// Grammars that an output can be held to, from the languages in which people write them.
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/grammar/automaton.h"

namespace tessera::grammar {

/// How generated JSON is laid out.
enum class JsonLayout {
    Free,     ///< a space, or a line break with up to 20 blanks, wherever JSON allows white space
    Compact,  ///< none at all, so that more of the output is forced
};

struct SchemaOptions {
    JsonLayout layout = JsonLayout::Free;
};

/// What a model may think before it writes what it is held to, as its chat format marks it.
struct Reasoning {
    std::string begin, end;  ///< empty: none
    bool is_open = false;    ///< the prompt began it
};

/// A tool the model may call.
struct ToolSpec {
    std::string name;
    std::string parameters;  ///< JSON schema of its arguments; empty: any object
};

/// How the arguments of a call are written where they are no JSON object: one after the other, in the order
/// of the schema's properties, each a name and a value. Only properties that the schema lists are written.
struct ArgumentNotation {
    enum class Text {
        Json,    ///< a JSON string
        Plain,   ///< as it is, up to value_end; of properties whose schema says `"type": "string"` alone
        Marked,  ///< as it is, between two `quote`s; then names inside values are bare, too
    };
    std::string key_begin, key_end, value_end;
    std::string separator;     ///< between two arguments
    std::string text_key_end;  ///< instead of key_end in front of a plain text; empty: the same
    Text text = Text::Json;
    std::string quote;
    std::vector<std::string> not_in_text;  ///< what a plain or marked text cannot hold
    bool strips_lines = false;             ///< a plain text neither begins nor ends with a line feed
    bool python_words = false;             ///< True, False, None
};

/// How calls are written: around the JSON, or with the name outside.
struct ToolGrammar {
    std::vector<ToolSpec> tools;
    /// Texts that begin a call, e.g. "<tool_call>". With none the output is calls from its first byte, or
    /// text that begins with neither a bracket nor white space.
    std::vector<std::string> triggers;
    std::string before, after;  ///< around each call, `before` following the trigger
    std::string name_key = "name", arguments_key = "arguments";
    std::string separator = "\n";  ///< between a call and the next trigger
    std::string list_separator;    ///< not empty: further calls stand inside before and after, this between
    bool is_list = false;          ///< they stand there with nothing between
    /// Not empty: the name stands as it is between call_begin and this, then the arguments and call_end. Else
    /// a call is a JSON object with name and arguments by their keys.
    std::string name_end;
    std::string call_begin, call_end;
    std::optional<ArgumentNotation> arguments;  ///< none: a JSON object
    std::string last;                           ///< may follow the last call
    std::string forbidden;  ///< begins calls in a form that is not held to anything: never in free text
    bool parallel = false;  ///< further calls after the first
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
