#pragma once
// Dialogues to tokens, for one model: its chat template, its tokenizer and the form of its answers.
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
    std::string_view template_text = {};  ///< in Jinja, or
    std::string_view template_name = {};  ///< one of ours; both empty: the model's own
    std::string_view format = {};         ///< of answers, by name; empty: the template's
};

/// A dialogue as it goes into a request, and what reading the answer takes.
struct ChatPrompt {
    chat::Prompt prompt;
    std::vector<int32_t> tokens;  ///< with the token that begins a text, once
    chat::Value tools = chat::Value::none();
    const chat::Format* format = nullptr;
    const chat::ToolCallFormat* tool_call_format =
        nullptr;                           ///< how calls are written; null: in no regular form
    std::vector<chat::TagPair> reasoning;  ///< of the format's tags those that the template knows
    std::string turn_end;

    chat::ParserOptions parser_options() const { return {tools, prompt.opening, turn_end}; }
};

/// A dialogue from the JSON of a request. `tools` and `kwargs`, JSON texts too, replace its own members where
/// they are not empty. Errors name the member.
Result<chat::Dialogue> read_dialogue(std::string_view messages, std::string_view tools,
                                     std::string_view kwargs);
/// A checked list of tools, or none.
Result<chat::Value> read_tools(std::string_view json);

/// A format of answers by its name; the error lists them.
Result<const chat::Format*> find_answer_format(std::string_view name);

/// Whether the answer to a prompt that ends like this begins inside the tags.
bool is_open(const chat::TagPair& tags, std::string_view opening);

/// Immutable; const members from any thread.
class Chat {
  public:
    /// Errors: a given template that does not work, a name that does not exist. A model's own template that
    /// does not work is replaced by ChatML, and the log says so.
    static Result<std::shared_ptr<const Chat>> create(const gguf::File& file,
                                                      std::shared_ptr<const text::Tokenizer> tokenizer,
                                                      const ChatOptions& options);

    /// Errors: those of chat::ChatTemplate::render; a prompt without tokens.
    Result<ChatPrompt> render(const chat::Dialogue& dialogue) const;

    /// Of dialogues without tools.
    const chat::ChatTemplate& plain() const { return plain_; }
    /// Of dialogues with tools: some models bring a template of their own for them.
    const chat::ChatTemplate& with_tools() const { return with_tools_ ? *with_tools_ : plain_; }
    /// Of answers to dialogues with tools.
    const chat::Format& format() const { return format_of(with_tools()); }
    const chat::ToolCallFormat* tool_call_format() const { return tool_call_format_of(with_tools()); }
    /// Where no token of the vocabulary ends a turn, the text that does; empty: not needed, or unknown.
    const std::string& stop() const { return stop_; }

  private:
    Chat(chat::ChatTemplate plain, std::shared_ptr<const text::Tokenizer> tokenizer)
        : plain_(std::move(plain)), tokenizer_(std::move(tokenizer)) {}
    const chat::Format& format_of(const chat::ChatTemplate& chosen) const;
    const chat::ToolCallFormat* tool_call_format_of(const chat::ChatTemplate& chosen) const;

    chat::ChatTemplate plain_;
    std::optional<chat::ChatTemplate> with_tools_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    const chat::Format* format_ = nullptr;  // if the caller chose it
    std::string stop_;
};

}  // namespace tessera::engine
