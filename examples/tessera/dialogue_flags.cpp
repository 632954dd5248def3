// A dialogue of at most two messages, rendered by the model's template; tools and templates by the names that
// users give them. Next: answer_printer.cpp, which prints the parsed answer.
#include "examples/tessera/dialogue_flags.h"

#include "common/log.h"
#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"
#include "src/engine/response_format.h"
#include "src/text/jinja/json.h"

namespace tessera {

Result<std::string> named_template(const std::string& name) {
    if (const char* source = chat::find_builtin(name)) return std::string(source);
    Result<std::string> source = console::read_all(name);
    if (source) return source;
    const auto names = chat::builtin_names();
    const std::string_view near = nearest_name(name, names);
    const std::string hint = near.empty() ? "" : strf("; did you mean '%s'?", std::string(near).c_str());
    return fail(
        source.error().code,
        "--chat-template: expected a file or a built-in template (tessera template --list), found '%s': %s%s",
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
    options.flag("--chat", chat, "Take the prompt as a user message, in the model's chat template.");
    options.text("--system", "TEXT", system, "The system message.");
    options.text("--tools", "FILE", tools_file,
                 "Tools that the model may call: a JSON list in OpenAI's format.");
    options.text(
        "--tool-choice", "HOW", tool_choice,
        "auto: text or calls that match the tools' schemas; required: a call; none: no call; or the name of "
        "the tool to call.");
    options.text("--chat-template", "FILE|NAME", chat_template,
                 "Use this template instead of the model's: a file or a name of tessera template --list.");
    options.flag("--no-think", no_think, "Disable thinking, for models that reason first.");
}

Result<void> DialogueFlags::check() const {
    if (!tool_choice.empty() && tools_file.empty())
        return fail(ErrorCode::InvalidArgument, "--tool-choice needs --tools");
    const std::pair<const char*, bool> given[] = {{"--system", !system.empty()},
                                                  {"--tools", !tools_file.empty()},
                                                  {"--chat-template", !chat_template.empty()},
                                                  {"--no-think", no_think}};
    for (const auto& [name, is_given] : given)
        if (is_given && !chat) return fail(ErrorCode::InvalidArgument, "%s needs --chat", name);
    return {};
}

Result<std::shared_ptr<const grammar::Grammar>> DialogueFlags::calls(const engine::ChatPrompt& prompt) const {
    engine::ToolCallOptions options{.parallel = true};
    if (tool_choice == "none") {
        options.none = true;
    } else if (!tool_choice.empty() && tool_choice != "auto") {
        options.required = true;
        if (tool_choice != "required") options.function = tool_choice;
    }
    const auto create = [&]() -> Result<std::shared_ptr<const grammar::Grammar>> {
        TSR_TRY(const grammar::ToolGrammar tools, engine::tool_calls_of(prompt, options));
        return grammar::Grammar::from_tools(tools);
    };
    auto grammar = create();
    if (!grammar)
        return fail_in(tool_choice.empty() ? "--tools" : "--tool-choice", std::move(grammar.error()));
    return grammar;
}

Result<ChatTurn> DialogueFlags::turn(const std::string& said, const gguf::File& file,
                                     std::shared_ptr<const text::Tokenizer> tokenizer) const {
    Json messages = Json::array();
    if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
    messages.push_back({{"role", "user"}, {"content", said}});
    TSR_TRY(chat::Dialogue dialogue,
            chat::parse_dialogue(messages.dump(-1, ' ', false, Json::error_handler_t::replace)));
    if (!tools_file.empty()) {
        TSR_TRY(dialogue.tools, read_tools(tools_file));
    }
    if (no_think) dialogue.enable_thinking = false;
    std::string source;
    if (!chat_template.empty()) {
        TSR_TRY(source, named_template(chat_template));
        if (source.empty())
            return fail(ErrorCode::InvalidArgument,
                        "--chat-template '%s': expected a template, found nothing",
                        printable(chat_template, 400).c_str());
    }
    auto model = engine::Chat::create(file, std::move(tokenizer), {.template_text = source});
    if (!model && chat_template.empty()) return tl::unexpected<Error>(model.error());
    if (!model) return fail_in(printable(chat_template, 400), std::move(model.error()));
    ChatTurn turn;
    TSR_TRY(turn.prompt, (*model)->render(dialogue));
    for (const std::string& note : turn.prompt.prompt.notes) log::warn("chat template: %s", note.c_str());
    turn.parser = chat::OutputParser::make(*turn.prompt.format, turn.prompt.parser_options());
    if (!tools_file.empty()) {
        TSR_TRY(turn.calls, calls(turn.prompt));
    }
    return turn;
}

}  // namespace tessera
