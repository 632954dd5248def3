// tessera chat: its options, and which of the parts beside this file it takes for the terminal or pipe at
// hand. repl.cpp is the loop, commands.cpp what begins with a slash, talker.cpp the model's side.
#include <unistd.h>

#include <cstdlib>

#include "common/strings.h"
#include "examples/tessera/chat/repl.h"
#include "examples/tessera/commands.h"
#include "examples/tessera/console.h"
#include "examples/tessera/sampling_flags.h"
#include "examples/tessera/terminal.h"

namespace tessera {

namespace {

struct ChatArgs {
    repl::TalkerOptions talker;
    repl::Settings settings;
    std::string system, load, history, kv;
    bool no_think = false, hide_reasoning = false, stats = false;
    bool no_color = false, no_history = false;
};

bool is_set(const char* variable) {
    const char* value = std::getenv(variable);
    return value && *value;
}

Result<std::unique_ptr<repl::LineReader>> make_reader(const ChatArgs& args, bool edits, bool colours) {
    if (!edits) return repl::make_plain_reader(console::is_terminal(STDIN_FILENO));
    std::vector<std::string> names;
    for (const repl::ChatCommand& command : repl::chat_commands()) names.emplace_back(command.name);
    std::string history = args.history.empty() ? repl::HistoryFile::default_path() : args.history;
    if (args.no_history) history.clear();
    return repl::make_editor(repl::HistoryFile(history), names, colours);
}

Result<void> run(const ChatArgs& args) {
    TSR_TRY(const std::unique_ptr<repl::Talker> talker, repl::Talker::create(args.talker));
    const bool from_terminal = console::is_terminal(STDIN_FILENO),
               to_terminal = console::is_terminal(STDOUT_FILENO);
    repl::Screen screen(to_terminal,
                        console::is_screen(STDOUT_FILENO) && !args.no_color && !is_set("NO_COLOR"));
    TSR_TRY(const std::unique_ptr<repl::LineReader> reader,
            make_reader(args, from_terminal && console::is_screen(STDOUT_FILENO), screen.colours()));
    repl::Repl repl(*talker, screen, *reader, !from_terminal);
    repl.conversation = repl::new_conversation(args.system);
    repl.settings = args.settings;
    if (from_terminal)
        TSR_TRY_VOID(
            screen.note(strf("%s, context of %lld tokens. /help lists the commands.",
                             talker->description().c_str(), static_cast<long long>(talker->n_ctx()))));
    if (!args.load.empty()) TSR_TRY_VOID(repl::load_conversation(repl, args.load));
    return repl.run();
}

Result<void> check(ChatArgs& args) {
    const std::vector<std::string_view> types = split(args.kv, ',');
    if (types.size() > 2)
        return fail(ErrorCode::InvalidArgument,
                    "--kv: expected one type, or one for K and one for V, found '%s'",
                    printable(args.kv).c_str());
    args.talker.k_type = types.front();
    args.talker.v_type = types.back();
    if (!args.load.empty() && !args.system.empty())
        return fail(ErrorCode::InvalidArgument,
                    "--load: the conversation has a system prompt of its own, found --system");
    if (args.settings.n_predict == 0)
        return fail(ErrorCode::InvalidArgument, "--n-predict: expected -1 or a number from 1, found 0");
    args.settings.shows_stats = args.stats;
    args.settings.shows_reasoning = !args.hide_reasoning;
    if (args.no_think) args.settings.think = TSR_NO;
    return {};
}

Action declare_chat(Options& options) {
    auto args = std::make_shared<ChatArgs>();
    options.positional("MODEL", args->talker.model, "A GGUF file; of a split model the first part.");
    options.group("Model");
    options.flag("--precise", args->talker.precise,
                 "Compute in float straight from the file, without int8 activations.");
    options.flag("--force", args->talker.force,
                 "Go on where `tessera plan` says that the memory is too small.");
    options.integer("-t,--threads", args->talker.n_threads, 0, 256,
                    "Worker threads; 0: the physical cores that this process may use.");
    options.group("Chat");
    options.text("--system", "TEXT", args->system, "A system message in front.");
    options.text("--load", "FILE", args->load, "Go on with a conversation that /save wrote.");
    options.text("--chat-template", "FILE|NAME", args->talker.chat_template,
                 "Another template than the model's.");
    options.flag("--no-think", args->no_think, "Asks a model that reasons first to answer at once.");
    options.flag("--hide-reasoning", args->hide_reasoning, "Do not show reasoning.");
    options.integer("-n,--n-predict", args->settings.n_predict, -1, int64_t{1} << 40,
                    "Tokens of an answer; -1: until the model ends or the context is full.");
    options.flag("--stats", args->stats, "A line of figures below each answer.");
    options.flag("--no-color", args->no_color, "No colours, as with the environment variable NO_COLOR.");
    options.text("--history", "FILE", args->history,
                 "Where lines are remembered, instead of the usual place.");
    options.flag("--no-history", args->no_history, "Remember no lines beyond this chat.");
    options.group("Context");
    options.integer("-c,--ctx", args->talker.n_ctx, 0, int64_t{1} << 24,
                    "Positions of the context; 0: what the model was trained for, at most 4096.");
    options.integer("--batch", args->talker.n_batch, 1, 4096,
                    "Tokens computed at once; changes speed, never results.");
    options.text("--kv", "TYPE[,TYPE]", args->kv,
                 "How keys and values are stored; two types are for K and V. (default: f16)");
    args->talker.npu.declare(options);
    declare_sampling(options, [args](std::string_view name, const std::string& text) {
        return args->settings.set(name, text);
    });
    options.check([args] { return check(*args); });
    return [args] { return run(*args); };
}

}  // namespace

const Command kChat = {.name = "chat",
                       .summary = "talk with a model",
                       .help =
                           "Messages and answers in turn, on a terminal or through pipes, a message a line.\n"
                           "What begins with / is a command; /help lists them.",
                       .examples =
                           "  tessera chat model.gguf --system \"Be brief.\"\n"
                           "  tessera chat model.gguf --load talk.json      go on with a saved conversation\n"
                           "  echo \"Who was Ada Lovelace?\" | tessera chat model.gguf --seed 1\n",
                       .declare = declare_chat};

}  // namespace tessera
