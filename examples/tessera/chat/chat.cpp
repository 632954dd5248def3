// tessera chat: its options, and the choice of the reader and the screen for a terminal or a pipe. repl.cpp
// is the loop, commands.cpp has the commands, talker.cpp the model's side.
#include "examples/tessera/chat/chat.h"

#include <signal.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>

#include "common/strings.h"
#include "examples/tessera/blas_flag.h"
#include "examples/tessera/chat/repl.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/dialogue_flags.h"
#include "examples/tessera/sampling_flags.h"
#include "examples/tessera/terminal.h"

namespace tessera {

namespace {

bool is_set(const char* variable) {
    const char* value = std::getenv(variable);
    return value && *value;
}

Result<std::unique_ptr<repl::LineReader>> make_reader(const ChatArgs& args, const repl::Repl& repl,
                                                      bool edits, bool colours) {
    if (!edits) return repl::make_plain_reader(console::is_terminal(STDIN_FILENO));
    std::string history = args.history.empty() ? repl::HistoryFile::default_path() : args.history;
    if (args.no_history) history.clear();
    const auto completer = [&repl](std::string_view line) { return repl::complete(repl, line); };
    return repl::make_editor(repl::HistoryFile(history), completer, colours);
}

/// Ends the program as the signal would have done, had the chat not kept the conversation first.
void end_by_signal(int number) {
    ::signal(number, SIG_DFL);
    ::raise(number);
}

/// Turns the options that constrain answers into a setting.
Result<void> constrain_answers(ChatArgs& args) {
    const ConstraintFlags& given = args.constraint;
    TSR_TRY_VOID(given.check());
    args.settings.compact_json = given.compact;
    const std::pair<const char*, std::string> rows[] = {{"--json-object", given.json_object ? "json" : ""},
                                                        {"--json-schema", given.schema},
                                                        {"--grammar", given.grammar},
                                                        {"--regex", given.regex}};
    const char* kinds[] = {"", "schema ", "grammar ", "regex "};
    for (size_t i = 0; i < std::size(rows); i++) {
        if (rows[i].second.empty()) continue;
        auto done = args.settings.set("format", kinds[i] + rows[i].second);
        if (!done) return fail_in(rows[i].first, std::move(done.error()));
    }
    return {};
}

/// The tools are checked here, and their text goes to the model's template.
Result<void> set_tools(ChatArgs& args) {
    if (args.tools_file.empty() && !args.talker.tool_choice.empty())
        return fail(ErrorCode::InvalidArgument, "--tool-choice needs --tools");
    if (args.tools_file.empty()) return {};
    if (args.tools_file == "-")
        return fail(ErrorCode::InvalidArgument,
                    "--tools: expected a file, since standard input has the messages");
    TSR_TRY_VOID(read_tools(args.tools_file));
    TSR_TRY(args.talker.tools, console::read_all(args.tools_file));
    return {};
}

Action declare_chat(Options& options) {
    auto args = std::make_shared<ChatArgs>();
    options.positional("MODEL", args->talker.model, "A GGUF file; of a split model the first part.");
    options.group("Chat");
    options.text("-p,--prompt", "TEXT", args->prompt,
                 "The first message; the chat continues after its answer.");
    options.text("--system", "TEXT", args->system, "The system prompt.");
    options.integer("-n,--n-predict", args->settings.n_predict, -1, int64_t{1} << 40,
                    "Most tokens of an answer; -1: until the model ends it or the context is full.");
    options.flag("--continue", args->continues,
                 "Continue the last conversation that was kept automatically.");
    options.text("--load", "FILE", args->load, "Continue a conversation that /save wrote.");
    options.flag("--no-autosave", args->no_autosave, "Do not keep conversations automatically.");
    options.text("--chat-template", "FILE|NAME", args->talker.chat_template,
                 "Use this template instead of the model's.");
    options.flag("--no-think", args->no_think,
                 "Disable reasoning before the answer, where the template can.");
    options.flag("--hide-reasoning", args->hide_reasoning, "Do not show reasoning.");
    options.flag("--stats", args->stats, "Print a line of figures after each answer.");
    options.flag("--no-wrap", args->no_wrap, "Do not break the lines of answers between words.");
    options.flag("--no-color", args->no_color, "No colours, as with the environment variable NO_COLOR.");
    options.text("--history", "FILE", args->history, "File of the lines that were entered before.");
    options.flag("--no-history", args->no_history, "Do not store the lines that are entered.");
    options.text("--tools", "FILE", args->tools_file,
                 "Tools that the model may call: a JSON list in OpenAI's form. /result answers a call.");
    options.text("--tool-choice", "HOW", args->talker.tool_choice,
                 "auto: text or a call; required: a call; none: no call; or the name of the tool to call.");
    args->constraint.declare(options);
    options.group("Model");
    options.repeated(
        "--override-kv", "KEY=TYPE:VALUE",
        [args](const std::string& text) -> Result<void> {
            args->talker.overrides.push_back(text);
            return {};
        },
        "Use this value for a key of the file; TYPE is int, float, bool or str. May be given several times.");
    options.flag("--check", args->talker.check,
                 "Look for weights that are infinite or NaN before the chat begins.");
    options.flag("--precise", args->talker.precise,
                 "Use float activations instead of int8: slower, more precise.");
    declare_blas(options, args->talker.blas);
    options.flag("--force", args->talker.force,
                 "Load the model even if the memory estimate (tessera plan) does not fit.");
    options.integer("-t,--threads", args->talker.n_threads, 0, 256,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Context");
    options.integer("-c,--ctx", args->talker.n_ctx, 0, int64_t{1} << 24,
                    "Context length in tokens; 0: as trained, but at most 4096.");
    options.integer("--batch", args->talker.n_batch, 1, 4096,
                    "Tokens computed at once; changes speed, never results.");
    options.text("--kv", "TYPE[,TYPE]", args->kv,
                 "Type of the KV cache, or one type for K and one for V. (default: f16)");
    args->talker.npu.declare(options);
    declare_sampling(options, [args](std::string_view name, const std::string& text) {
        return args->settings.set(name, text);
    });
    options.check([args] { return check_chat(*args); });
    return [args] { return run_chat(*args); };
}

}  // namespace

Result<void> check_chat(ChatArgs& args) {
    const std::vector<std::string_view> types = split(args.kv, ',');
    if (types.size() > 2)
        return fail(ErrorCode::InvalidArgument,
                    "--kv: expected one type, or one for K and one for V, found '%s'",
                    printable(args.kv).c_str());
    args.talker.k_type = types.front();
    args.talker.v_type = types.back();
    if (!args.load.empty() && args.continues)
        return fail(ErrorCode::InvalidArgument, "expected --load or --continue, found both");
    if ((!args.load.empty() || args.continues) && !args.system.empty())
        return fail(ErrorCode::InvalidArgument,
                    "%s: the conversation has its own system prompt, found --system (/system changes it)",
                    args.continues ? "--continue" : "--load");
    if (args.settings.n_predict == 0)
        return fail(ErrorCode::InvalidArgument, "--n-predict: expected -1 or a number from 1, found 0");
    args.settings.shows_stats = args.stats;
    args.settings.shows_reasoning = !args.hide_reasoning;
    args.settings.wraps = !args.no_wrap;
    if (args.no_think) args.settings.think = TSR_NO;
    TSR_TRY_VOID(set_tools(args));
    return constrain_answers(args);
}

Result<void> run_chat(const ChatArgs& args) {
    TSR_TRY(const std::unique_ptr<repl::Talker> talker, repl::Talker::create(args.talker));
    const bool from_terminal = console::is_terminal(STDIN_FILENO),
               to_terminal = console::is_terminal(STDOUT_FILENO);
    // Only the type of characters, for their width: numbers are written as in C everywhere.
    if (!std::setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    repl::Screen screen(to_terminal,
                        console::is_screen(STDOUT_FILENO) && !args.no_color && !is_set("NO_COLOR"));
    repl::Repl repl(*talker, screen, !from_terminal);
    TSR_TRY(repl.reader,
            make_reader(args, repl, from_terminal && console::is_screen(STDOUT_FILENO), screen.colours()));
    repl.conversation = repl::new_conversation(args.system);
    repl.settings = args.settings;
    if (from_terminal && !args.no_autosave) repl.autosave = repl::Autosave(repl::Autosave::default_folder());
    if (from_terminal)
        TSR_TRY_VOID(
            screen.note(strf("%s, context of %lld tokens. /help lists the commands.",
                             talker->description().c_str(), static_cast<long long>(talker->n_ctx()))));
    if (!args.load.empty() || args.continues) TSR_TRY_VOID(repl::load_conversation(repl, args.load));
    const Result<void> done = repl.run(args.prompt);
    if (repl.ended_by_signal() != 0) end_by_signal(repl.ended_by_signal());
    return done;
}

const Command kChat = {
    .name = "chat",
    .summary = "chat with a model",
    .help =
        "A conversation on a terminal, or through pipes with one message per line. A line "
        "that begins with / is\n"
        "a command; /help lists them.",
    .examples =
        "  tessera chat model.gguf --system \"Be brief.\"\n"
        "  tessera chat model.gguf --continue            the last conversation\n"
        "  tessera chat model.gguf --load talk.json      a saved conversation\n"
        "  echo \"Who was Ada Lovelace?\" | tessera chat model.gguf --seed 1\n",
    .declare = declare_chat,
    .common =
        "--prompt --system --load --continue --chat-template --no-think --n-predict --stats "
        "--threads --ctx --temp --top-p --top-k --seed --help --help-all"};

}  // namespace tessera
