// tessera template: renders a dialogue in JSON to the text of a prompt, without running a model. The template
// is the model's, a file's, or a built-in one.
#include "src/text/chat/template.h"

#include "common/strings.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/dialogue_flags.h"
#include "examples/tessera/json.h"
#include "examples/tessera/model_loading.h"
#include "src/text/chat/model_template.h"
#include "src/text/jinja/json.h"

namespace tessera {

namespace {

struct TemplateArgs {
    FileOptions file;
    std::string dialogue_file = "-";
    std::string chat_template, kwargs, tools_file, bos, eos;
    std::optional<bool> thinking;
    std::optional<jinja::DateTime> date;
    bool closed = false, open_end = false, raw = false, list = false, json = false;
    bool has_bos = false, has_eos = false;
};

Result<chat::ChatTemplate> load(const TemplateArgs& args, bool for_tools) {
    chat::Clock clock;
    if (args.date) clock = [date = *args.date] { return date; };
    // A given template needs no model; if one is named, its special tokens are used.
    std::string source;
    if (!args.chat_template.empty()) {
        TSR_TRY(source, named_template(args.chat_template));
    }
    chat::SpecialTexts special;
    if (source.empty() || !args.file.path.empty()) {
        TSR_TRY(const gguf::File file, args.file.open());
        TSR_TRY(const text::Vocab vocab, text::Vocab::load(file));
        special = chat::special_texts(vocab);
        if (source.empty()) {
            TSR_TRY(const std::string_view own, chat::template_source(file, for_tools));
            source = own.empty() ? chat::find_builtin("chatml") : own;
            if (own.empty()) console::note("the model has no chat template: using ChatML");
        }
    }
    if (args.has_bos) special.bos = args.bos;
    if (args.has_eos) special.eos = args.eos;
    if (args.raw) return chat::ChatTemplate::parse(source, std::move(special), std::move(clock));
    return chat::ChatTemplate::load(source, std::move(special), std::move(clock));
}

Result<chat::Dialogue> parse_file(const TemplateArgs& args) {
    TSR_TRY(const std::string text, console::read_all(args.dialogue_file));
    const bool is_stdin = args.dialogue_file == "-";
    if (is_stdin && trim(text).empty())
        return fail(ErrorCode::InvalidArgument, "standard input is empty; give a dialogue with -f FILE");
    auto dialogue = args.raw ? chat::parse_raw_dialogue(text) : chat::parse_dialogue(text);
    if (!dialogue)
        return fail_in(is_stdin ? "standard input" : printable(args.dialogue_file, 400),
                       std::move(dialogue.error()));
    return dialogue;
}

// Tools for --raw, unchecked.
Result<jinja::Value> read_raw_tools(const std::string& path) {
    TSR_TRY(const std::string text, console::read_all(path));
    auto tools = jinja::parse_json(text);
    if (!tools) return fail_in("--tools '" + printable(path, 400) + "'", std::move(tools.error()));
    return tools;
}

Result<chat::Dialogue> read_dialogue(const TemplateArgs& args) {
    TSR_TRY(chat::Dialogue dialogue, parse_file(args));
    if (!args.tools_file.empty()) {
        TSR_TRY(dialogue.tools, args.raw ? read_raw_tools(args.tools_file) : read_tools(args.tools_file));
    }
    if (!args.kwargs.empty()) {
        auto kwargs = jinja::parse_json(args.kwargs);
        if (!kwargs) return fail_in("--kwargs", std::move(kwargs.error()));
        if (!kwargs->is_dict())
            return fail(ErrorCode::InvalidArgument, "--kwargs: expected a JSON object, found %s",
                        kwargs->type_name());
        for (const auto& [name, value] : kwargs->as_dict().pairs())
            dialogue.kwargs = chat::with_member(dialogue.kwargs, name.as_text(), value);
    }
    if (args.thinking) dialogue.enable_thinking = args.thinking;
    if (args.open_end) dialogue.continue_last = true;
    if (args.closed || args.open_end) dialogue.add_generation_prompt = false;
    return dialogue;
}

std::string as_json(const chat::ChatTemplate& chat_template, const chat::Prompt& prompt) {
    const chat::Abilities& found = chat_template.abilities();
    return json_line({{"prompt", prompt.text},
                      {"has_bos", prompt.has_bos},
                      {"opening", prompt.opening},
                      {"turn_end", chat_template.turn_end()},
                      {"notes", prompt.notes},
                      {"warnings", chat_template.warnings()},
                      {"abilities",
                       {{"system", found.system},
                        {"parts", found.parts},
                        {"text", found.text},
                        {"tools", found.tools},
                        {"tool_calls", found.tool_calls},
                        {"tool_results", found.tool_results},
                        {"object_arguments", found.object_arguments},
                        {"thinking", found.thinking}}}});
}

Result<void> render(const TemplateArgs& args) {
    if (args.list) {
        std::string names;
        for (const std::string_view name : chat::builtin_names()) names += std::string(name) + "\n";
        return console::print(names);
    }
    TSR_TRY(const chat::Dialogue dialogue, read_dialogue(args));
    TSR_TRY(const chat::ChatTemplate chat_template, load(args, !dialogue.tools.is_none()));
    chat::Prompt prompt;
    if (args.raw) {
        TSR_TRY(prompt.text, chat_template.render_raw(dialogue));
        return console::print(args.json ? json_line({{"prompt", prompt.text}}) : prompt.text);
    }
    TSR_TRY(prompt, chat_template.render(dialogue));
    if (args.json) return console::print(as_json(chat_template, prompt));
    for (const std::string& note : prompt.notes) console::note("%s", note.c_str());
    return console::print(prompt.text);
}

Action declare_template(Options& options) {
    auto args = std::make_shared<TemplateArgs>();
    args->file.declare(options);
    options.group("Dialogue");
    options.text("-f,--file", "FILE", args->dialogue_file,
                 "The dialogue: a JSON list of messages, or a request with \"messages\"; - is standard input "
                 "(the default).");
    options.text("--tools", "FILE", args->tools_file, "A JSON list of tools.");
    options.text("--kwargs", "JSON", args->kwargs, "More variables of the template, as a JSON object.");
    options.parsed(
        "--thinking", "on|off",
        [args](const std::string& text) -> Result<void> {
            if (text != "on" && text != "off")
                return fail(ErrorCode::InvalidArgument, "expected on or off, found '%s'",
                            printable(text).c_str());
            args->thinking = text == "on";
            return {};
        },
        "The template's switch for reasoning (enable_thinking).");
    options.flag("--closed", args->closed, "Do not add the beginning of the assistant's turn.");
    options.flag("--continue", args->open_end, "Leave the assistant's last message open, to be continued.");
    options.group("Template");
    options.text("--chat-template", "FILE|NAME", args->chat_template,
                 "Use this template instead of the model's; MODEL is then optional.");
    options.text("--bos", "TEXT", args->bos, "The template's bos_token.");
    options.text("--eos", "TEXT", args->eos, "The template's eos_token.");
    options.parsed(
        "--date", "YYYY-MM-DD[THH:MM:SS]",
        [args](const std::string& text) -> Result<void> {
            TSR_TRY(args->date, jinja::DateTime::parse(text));
            return {};
        },
        "Date and time for templates that print them; default: now.");
    options.flag("--raw", args->raw, "Pass the dialogue to the template unchanged.");
    options.flag("--list", args->list, "Print the names of the built-in templates.");
    options.group("Output");
    options.flag("--json", args->json, "Print one JSON object: the prompt and the template's abilities.");
    options.check([args, options]() -> Result<void> {
        args->has_bos = options.given("--bos");
        args->has_eos = options.given("--eos");
        if (!args->closed || !args->open_end) return {};
        return fail(ErrorCode::InvalidArgument,
                    "expected at most one of --closed and --continue, found both");
    });
    return [args] { return render(*args); };
}

}  // namespace

const Command kTemplate = {
    .name = "template",
    .summary = "render a dialogue with a chat template",
    .help = "Renders a dialogue in JSON with a chat template, the model's or another, and prints the prompt.",
    .examples =
        "  tessera template model.gguf -f dialogue.json\n"
        "  tessera template --chat-template llama3 < dialogue.json\n"
        "  tessera template --chat-template my.jinja -f dialogue.json --tools tools.json --date 2026-01-31\n"
        "  tessera template --list                                 the built-in templates\n",
    .declare = declare_template};

}  // namespace tessera
