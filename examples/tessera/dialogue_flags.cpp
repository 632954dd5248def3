// A dialogue of at most two messages, rendered by the model's template; tools and templates by the names that
// users give them. Next: answer_printer.cpp, which shows what the parser finds.
#include "examples/tessera/dialogue_flags.h"

#include "common/log.h"
#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/text/chat/model_template.h"
#include "src/text/jinja/json.h"

namespace tessera {

Result<std::string> named_template(const std::string& name) {
    if (const char* source = chat::find_builtin(name)) return std::string(source);
    Result<std::string> source = console::read_all(name);
    if (source) return source;
    const auto names = chat::builtin_names();
    const std::string_view near = nearest_name(name, names);
    const std::string hint = near.empty() ? "" : strf("; did you mean '%s'?", std::string(near).c_str());
    return fail(source.error().code,
                "--chat-template: expected a file or one of our own ('tessera template --list' names them), "
                "found '%s': %s%s",
                printable(name, 400).c_str(), source.error().message.c_str(), hint.c_str());
}

Result<jinja::Value> read_tools(const std::string& path) {
    const std::string option = "--tools '" + printable(path, 400) + "'";
    auto text = console::read_all(path);
    if (!text) return fail_in(option, std::move(text.error()));
    auto tools = jinja::parse_json(*text);
    if (tools) tools = chat::check_tools(*tools);
    if (!tools) return fail_in(option, std::move(tools.error()));
    return tools;
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

/// The model's own, or the one that was named: that has to work, where the model's gives way to ChatML.
Result<chat::ChatTemplate> DialogueFlags::load_template(const gguf::File& file,
                                                        const text::Vocab& vocab) const {
    if (chat_template.empty()) return chat::load_model_template(file, vocab, !tools_file.empty());
    TSR_TRY(const std::string source, named_template(chat_template));
    auto loaded = chat::ChatTemplate::load_strictly(source, chat::special_texts(vocab));
    if (!loaded) return fail_in(printable(chat_template, 400), std::move(loaded.error()));
    return loaded;
}

Result<ChatTurn> DialogueFlags::turn(const std::string& said, const gguf::File& file,
                                     const text::Vocab& vocab) const {
    Json messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", said}});
    TSR_TRY(chat::Dialogue dialogue,
            chat::parse_dialogue(messages.dump(-1, ' ', false, Json::error_handler_t::replace)));
    if (!tools_file.empty()) {
        TSR_TRY(dialogue.tools, read_tools(tools_file));
    }
    if (no_think) dialogue.enable_thinking = false;
    TSR_TRY(const chat::ChatTemplate chosen, load_template(file, vocab));
    ChatTurn turn;
    TSR_TRY(turn.prompt, chosen.render(dialogue));
    for (const std::string& note : turn.prompt.notes) log::warn("chat template: %s", note.c_str());
    turn.parser = chat::OutputParser::make(
        chat::choose_format(chosen.source(), chosen.abilities().tools),
        {.tools = dialogue.tools, .opening = turn.prompt.opening, .turn_end = chosen.turn_end()});
    return turn;
}

}  // namespace tessera
