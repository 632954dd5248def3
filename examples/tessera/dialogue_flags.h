#pragma once
// Options that make a prompt a turn of a chat: the model's template around a system message and the text.
#include <string>

#include "examples/tessera/options.h"
#include "ggml-like/gguf/file.h"
#include "src/text/chat/template.h"
#include "src/text/vocab.h"

namespace tessera {

/// The template of --chat-template: a file's, one of our own by its name, or the model's where none was
/// given.
Result<chat::ChatTemplate> load_chat_template(const std::string& chosen, const gguf::File& file,
                                              const text::Vocab& vocab, bool for_tools);

struct DialogueFlags {
    bool chat = false, no_think = false;
    std::string system, tools_file, chat_template;

    void declare(Options& options);
    Result<void> check() const;
    /// The prompt for what the user says.
    Result<chat::Prompt> prompt(const std::string& said, const gguf::File& file,
                                const text::Vocab& vocab) const;
};

}  // namespace tessera
