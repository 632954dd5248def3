// Combines the templates of src/text/chat with the vocabulary of a model. src/text/chat renders dialogues;
// src/text/chat/parsers parses answers.
#include "src/engine/chat.h"

#include "common/log.h"
#include "common/strings.h"
#include "src/text/chat/model_template.h"
#include "src/text/jinja/json.h"

namespace tessera::engine {

namespace {

template <class T>
std::string listed(const T& names) {
    std::string list;
    for (const std::string_view name : names) list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
}

Result<chat::ChatTemplate> given_template(const ChatOptions& options, chat::SpecialTexts special) {
    std::string_view source = options.template_text;
    if (!options.template_name.empty()) {
        if (!source.empty())
            return fail(ErrorCode::InvalidArgument, "expected one of template text and name, found both");
        const char* const ours = chat::find_builtin(options.template_name);
        if (!ours)
            return fail(ErrorCode::NotFound, "chat template: expected one of %s, found '%s'",
                        listed(chat::builtin_names()).c_str(), printable(options.template_name).c_str());
        source = ours;
    }
    auto loaded = chat::ChatTemplate::load_strictly(source, std::move(special));
    if (!loaded) return fail_in("chat template", std::move(loaded.error()));
    return loaded;
}

/// The model's separate template for tools, if it has one that works.
Result<std::optional<chat::ChatTemplate>> tools_template(const gguf::File& file, const text::Vocab& vocab) {
    TSR_TRY(const std::string_view plain, chat::template_source(file));
    TSR_TRY(const std::string_view variant, chat::template_source(file, true));
    if (variant == plain) return std::optional<chat::ChatTemplate>();
    auto loaded = chat::ChatTemplate::load_strictly(variant, chat::special_texts(vocab));
    if (loaded) return std::optional(std::move(*loaded));
    log::warn("the model's chat template for tools does not work, the other one is used: %s",
              loaded.error().message.c_str());
    return std::optional<chat::ChatTemplate>();
}

}  // namespace

Result<chat::Value> read_tools(std::string_view json) {
    auto value = jinja::parse_json(json);
    if (!value) return fail_in("tools", std::move(value.error()));
    return chat::check_tools(*value);
}

Result<chat::Dialogue> read_dialogue(std::string_view messages, std::string_view tools,
                                     std::string_view kwargs) {
    auto value = jinja::parse_json(messages);
    if (!value) return fail_in("messages", std::move(value.error()));
    TSR_TRY(chat::Dialogue dialogue, chat::make_dialogue(*value));
    if (!tools.empty()) {
        TSR_TRY(dialogue.tools, read_tools(tools));
    }
    if (!kwargs.empty()) {
        auto given = jinja::parse_json(kwargs);
        if (!given) return fail_in("kwargs", std::move(given.error()));
        if (!given->is_dict())
            return fail(ErrorCode::InvalidArgument, "kwargs: expected an object, found %s",
                        given->type_name());
        dialogue.kwargs = std::move(*given);
    }
    return dialogue;
}

Result<const chat::Format*> find_answer_format(std::string_view name) {
    if (const chat::Format* format = chat::find_format(name)) return format;
    std::vector<std::string_view> names;
    for (const chat::Format& format : chat::formats()) names.push_back(format.name);
    return fail(ErrorCode::NotFound, "answer format: expected one of %s, found '%s'", listed(names).c_str(),
                printable(name).c_str());
}

Result<std::shared_ptr<const Chat>> Chat::create(const gguf::File& file,
                                                 std::shared_ptr<const text::Tokenizer> tokenizer,
                                                 const ChatOptions& options) {
    const text::Vocab& vocab = tokenizer->vocab();
    const bool is_given = !options.template_text.empty() || !options.template_name.empty();
    TSR_TRY(chat::ChatTemplate plain, is_given ? given_template(options, chat::special_texts(vocab))
                                               : chat::load_model_template(file, vocab));
    std::shared_ptr<Chat> out(new Chat(std::move(plain), std::move(tokenizer)));
    if (!is_given) {
        TSR_TRY(out->with_tools_, tools_template(file, vocab));
    }
    if (!options.format.empty()) {
        TSR_TRY(out->format_, find_answer_format(options.format));
    }
    // In the harmony format a turn may have several messages.
    const std::string& turn_end = out->plain_.turn_end();
    const int32_t id = vocab.find(turn_end);
    const bool is_end = vocab.contains(id) && vocab.is_end(id);
    if (!is_end && !out->format().is_harmony) out->stop_ = turn_end;
    return std::shared_ptr<const Chat>(std::move(out));
}

const chat::Format& Chat::format_of(const chat::ChatTemplate& chosen) const {
    return format_ ? *format_ : chat::choose_format(chosen.source(), chosen.abilities().tools);
}

const chat::ToolCallFormat* Chat::tool_call_format_of(const chat::ChatTemplate& chosen) const {
    const std::vector<chat::ToolCallFormat>& forms = format_of(chosen).written;
    for (const chat::ToolCallFormat& form : forms)
        if (chosen.source().find(form.mark.empty() ? form.trigger : form.mark) != std::string::npos)
            return &form;
    return forms.empty() ? nullptr : &forms.front();
}

bool is_open(const chat::TagPair& tags, std::string_view opening) {
    while (!opening.empty() && std::string_view(" \t\r\n").find(opening.back()) != std::string_view::npos)
        opening.remove_suffix(1);
    return opening.ends_with(tags.begin);
}

Result<ChatPrompt> Chat::render(const chat::Dialogue& dialogue) const {
    const chat::ChatTemplate& chosen = dialogue.tools.is_none() ? plain_ : with_tools();
    ChatPrompt out;
    TSR_TRY(out.prompt, chosen.render(dialogue));
    TSR_TRY(out.tokens,
            tokenizer_->encode(out.prompt.text, {.add_special = !out.prompt.has_bos, .parse_special = true}));
    if (out.tokens.empty())
        return fail(ErrorCode::InvalidArgument,
                    "prompt: expected some text, found none, and this model has no token to start from");
    out.tools = dialogue.tools;
    out.format = &format_of(chosen);
    out.tool_call_format = tool_call_format_of(chosen);
    for (const chat::TagPair& tags : out.format->reasoning)
        if (chosen.source().find(tags.end) != std::string::npos || is_open(tags, out.prompt.opening))
            out.reasoning.push_back(tags);
    out.turn_end = chosen.turn_end();
    return out;
}

}  // namespace tessera::engine
