#pragma once
// The chat template in a model's file.
#include "ggml-like/gguf/file.h"
#include "src/text/chat/template.h"
#include "src/text/vocab.h"

namespace tessera::chat {

/// bos and eos as the vocabulary spells them.
SpecialTexts special_texts(const text::Vocab& vocab);

/// The source in `tokenizer.chat_template`; with `for_tools`, the variant `tokenizer.chat_template.tool_use`
/// if there is one. Empty if the file has none. Errors: a key of another type than text.
Result<std::string_view> template_source(const gguf::File& file, bool for_tools = false);

/// The model's template, or ChatML with a warning if it has none or a broken one.
Result<ChatTemplate> load_model_template(const gguf::File& file, const text::Vocab& vocab,
                                         bool for_tools = false, Clock clock = {});

}  // namespace tessera::chat
