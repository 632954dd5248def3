#pragma once
// Grammars that an output can be held to, from the languages in which people write them.
#include <memory>
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

/// How calls are written around the JSON.
struct ToolGrammar {
    std::vector<ToolSpec> tools;
    /// Texts that begin a call, e.g. "<tool_call>". With none the output is calls from its first byte.
    std::vector<std::string> triggers;
    std::string before, after;  ///< around each call, `before` following the trigger
    std::string name_key = "name", arguments_key = "arguments";
    std::string separator = "\n";  ///< between a call and the next trigger
    std::string list_separator;    ///< not empty: further calls stand inside before and after, this between
    bool parallel = false;         ///< further calls after the first
    bool required = false;         ///< no text before the first trigger
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
