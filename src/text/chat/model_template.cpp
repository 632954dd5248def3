// Finds a model's chat template in the keys of its file.
#include "src/text/chat/model_template.h"

#include "common/log.h"

namespace tessera::chat {

SpecialTexts special_texts(const text::Vocab& vocab) {
    const auto spelled = [&](int32_t id) {
        return id == text::kNoToken ? std::string() : std::string(vocab.text(id));
    };
    return {spelled(vocab.special().bos), spelled(vocab.special().eos)};
}

Result<std::string_view> template_source(const gguf::File& file, bool for_tools) {
    if (for_tools) {
        TSR_TRY(const std::string_view variant, file.get_string_or("tokenizer.chat_template.tool_use", ""));
        if (!variant.empty()) return variant;
    }
    return file.get_string_or("tokenizer.chat_template", "");
}

Result<ChatTemplate> load_model_template(const gguf::File& file, const text::Vocab& vocab, bool for_tools,
                                         Clock clock) {
    TSR_TRY(std::string_view source, template_source(file, for_tools));
    if (source.empty()) {
        log::warn("the model has no chat template (key 'tokenizer.chat_template'): using ChatML");
        source = find_builtin("chatml");
    }
    return ChatTemplate::load(source, special_texts(vocab), std::move(clock));
}

}  // namespace tessera::chat
