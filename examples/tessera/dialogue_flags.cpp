// A dialogue of at most two messages, rendered by the model's template.
#include "examples/tessera/dialogue_flags.h"

#include "common/log.h"
#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/text/chat/model_template.h"

namespace tessera {

Result<chat::ChatTemplate> load_chat_template(const std::string& chosen, const gguf::File& file,
                                              const text::Vocab& vocab, bool for_tools) {
    if (chosen.empty()) return chat::load_model_template(file, vocab, for_tools);
    if (const char* ours = chat::find_builtin(chosen))
        return chat::ChatTemplate::load_strictly(ours, chat::special_texts(vocab));
    auto source = console::read_all(chosen);
    if (!source) {
        std::string names;
        for (const std::string_view name : chat::builtin_names()) names += " " + std::string(name);
        return fail(source.error().code, "--chat-template: expected a file or one of%s: %s", names.c_str(),
                    source.error().message.c_str());
    }
    auto loaded = chat::ChatTemplate::load_strictly(*source, chat::special_texts(vocab));
    if (!loaded) return fail_in(printable(chosen, 400), std::move(loaded.error()));
    return loaded;
}

void DialogueFlags::declare(Options& options) {
    options.group("Chat");
    options.flag("--chat", chat, "The text is what the user says; the model's chat template goes around it.");
    options.text("--system", "TEXT", system, "A system message in front.");
    options.text("--tools", "FILE", tools_file, "Tools the model may call, a JSON list in OpenAI's form.");
    options.text("--chat-template", "FILE|NAME", chat_template, "Another template than the model's.");
    options.flag("--no-think", no_think, "Asks a model that reasons first to answer at once.");
}

Result<void> DialogueFlags::check() const {
    if (chat || (system.empty() && tools_file.empty() && chat_template.empty() && !no_think)) return {};
    return fail(ErrorCode::InvalidArgument,
                "--system, --tools, --chat-template and --no-think belong to --chat");
}

Result<chat::Prompt> DialogueFlags::prompt(const std::string& said, const gguf::File& file,
                                           const text::Vocab& vocab) const {
    Json messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", said}});
    Json dialogue = {{"messages", messages}};
    if (!tools_file.empty()) {
        TSR_TRY(const std::string tools, console::read_all(tools_file));
        dialogue["tools"] = Json::parse(tools, nullptr, false);
        if (dialogue["tools"].is_discarded())
            return fail(ErrorCode::Malformed, "--tools '%s': expected JSON",
                        printable(tools_file, 400).c_str());
    }
    if (no_think) dialogue["enable_thinking"] = false;
    TSR_TRY(const chat::Dialogue parsed,
            chat::parse_dialogue(dialogue.dump(-1, ' ', false, Json::error_handler_t::replace)));
    TSR_TRY(const chat::ChatTemplate chosen,
            load_chat_template(chat_template, file, vocab, !tools_file.empty()));
    TSR_TRY(chat::Prompt prompt, chosen.render(parsed));
    for (const std::string& note : prompt.notes) log::warn("chat template: %s", note.c_str());
    return prompt;
}

}  // namespace tessera
