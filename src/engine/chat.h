#pragma once
// Converts dialogues to tokens for one model: its chat template, its tokenizer and the format of its answers.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ggml-like/gguf/file.h"
#include "src/text/chat/parsers/output_parser.h"
#include "src/text/chat/template.h"
#include "src/text/tokenizer.h"

namespace tessera::engine {

struct ChatOptions {
    std::string_view template_text = {};  ///< Jinja source; or
    std::string_view template_name = {};  ///< name of a built-in template; both empty: the model's own
    std::string_view format = {};         ///< name of the answer format; empty: the template's
};

/// A dialogue as a prompt for a request, with the information needed to parse the answer.
struct ChatPrompt {
    chat::Prompt prompt;
    std::vector<int32_t> tokens;  ///< with exactly one BOS token, if the model uses one
    chat::Value tools = chat::Value::none();
    const chat::Format* format = nullptr;
    const chat::ToolCallFormat* tool_call_format =
        nullptr;                           ///< format of tool calls; null: none that a grammar can describe
    std::vector<chat::TagPair> reasoning;  ///< reasoning tags of the format that occur in the template
    std::string turn_end;

    chat::ParserOptions parser_options() const { return {tools, prompt.opening, turn_end}; }
};

/// Parses a dialogue from the JSON of a request. `tools` and `kwargs`, also JSON, replace its members if not
/// empty. Errors name the member.
Result<chat::Dialogue> read_dialogue(std::string_view messages, std::string_view tools,
                                     std::string_view kwargs);
/// The checked list of tools; empty if there is none.
Result<chat::Value> read_tools(std::string_view json);

/// The answer format of this name; errors list the names.
Result<const chat::Format*> find_answer_format(std::string_view name);

/// Whether the answer to a prompt with this end begins inside the tags.
bool is_open(const chat::TagPair& tags, std::string_view opening);

/// Immutable; any thread may call const members.
class Chat {
  public:
    /// Errors: a given template that fails, a name that does not exist. If the model's own template fails,
    /// ChatML is used instead and the log says so.
    static Result<std::shared_ptr<const Chat>> create(const gguf::File& file,
                                                      std::shared_ptr<const text::Tokenizer> tokenizer,
                                                      const ChatOptions& options);

    /// Errors: those of chat::ChatTemplate::render; a prompt without tokens.
    Result<ChatPrompt> render(const chat::Dialogue& dialogue) const;

    /// Template for dialogues without tools.
    const chat::ChatTemplate& plain() const { return plain_; }
    /// Template for dialogues with tools; some models have a separate one.
    const chat::ChatTemplate& with_tools() const { return with_tools_ ? *with_tools_ : plain_; }
    /// Format of answers to dialogues with tools.
    const chat::Format& format() const { return format_of(with_tools()); }
    const chat::ToolCallFormat* tool_call_format() const { return tool_call_format_of(with_tools()); }
    /// Text that ends a turn if no end-of-generation token does; empty: not needed or unknown.
    const std::string& stop() const { return stop_; }

  private:
    Chat(chat::ChatTemplate plain, std::shared_ptr<const text::Tokenizer> tokenizer)
        : plain_(std::move(plain)), tokenizer_(std::move(tokenizer)) {}
    const chat::Format& format_of(const chat::ChatTemplate& chosen) const;
    const chat::ToolCallFormat* tool_call_format_of(const chat::ChatTemplate& chosen) const;

    chat::ChatTemplate plain_;
    std::optional<chat::ChatTemplate> with_tools_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    const chat::Format* format_ = nullptr;  // set if the caller chose it
    std::string stop_;
};

}  // namespace tessera::engine
