#pragma once
// Options that make a prompt a turn of a chat: the model's template with a system message and the prompt, and
// the parser of the answer in the template's format.
#include <memory>
#include <string>

#include "examples/tessera/options.h"
#include "ggml-like/gguf/file.h"
#include "src/engine/chat.h"
#include "src/grammar/grammar.h"

namespace tessera {

/// The source of the template that --chat-template names: a built-in one, else a file's. Errors name the
/// option and the nearest built-in name.
Result<std::string> named_template(const std::string& name);

/// The tools in a file of JSON, checked. Errors name the option and the file.
Result<jinja::Value> read_tools(const std::string& path);

/// The prompt of a turn and the parser of its answer.
struct ChatTurn {
    engine::ChatPrompt prompt;
    std::unique_ptr<chat::OutputParser> parser;
    std::shared_ptr<const grammar::Grammar>
        calls;  ///< constrains tool calls to their schemas; null without tools
};

struct DialogueFlags {
    bool chat = false, no_think = false;
    std::string system, tools_file, tool_choice, chat_template;

    void declare(Options& options);
    Result<void> check() const;
    /// The turn with the user message `said`. Without tool_choice the calls are `auto`.
    Result<ChatTurn> turn(const std::string& said, const gguf::File& file,
                          std::shared_ptr<const text::Tokenizer> tokenizer) const;

  private:
    Result<std::shared_ptr<const grammar::Grammar>> calls(const engine::ChatPrompt& prompt) const;
};

}  // namespace tessera
