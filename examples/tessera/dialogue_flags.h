#pragma once
// Options that make a prompt a turn of a chat: the model's template around a system message and the text, and
// the parser of the answer that this template asks for.
#include <memory>
#include <string>

#include "examples/tessera/options.h"
#include "ggml-like/gguf/file.h"
#include "src/engine/chat.h"
#include "src/grammar/grammar.h"

namespace tessera {

/// The source of the template that --chat-template names: one of our own, else a file's. Errors name the
/// option and, where one is near, the name that was meant.
Result<std::string> named_template(const std::string& name);

/// The tools in a file of JSON, checked. Errors name the option and the file.
Result<jinja::Value> read_tools(const std::string& path);

/// What goes to the model, and what reads that which comes back.
struct ChatTurn {
    engine::ChatPrompt prompt;
    std::unique_ptr<chat::OutputParser> parser;
    std::shared_ptr<const grammar::Grammar> calls;  ///< holds calls of tools to their form; null: none given
};

struct DialogueFlags {
    bool chat = false, no_think = false;
    std::string system, tools_file, tool_choice, chat_template;

    void declare(Options& options);
    Result<void> check() const;
    /// The turn in which the user says `said`. Without tool_choice the calls are `auto`.
    Result<ChatTurn> turn(const std::string& said, const gguf::File& file,
                          std::shared_ptr<const text::Tokenizer> tokenizer) const;

  private:
    Result<std::shared_ptr<const grammar::Grammar>> calls(const engine::ChatPrompt& prompt) const;
};

}  // namespace tessera
