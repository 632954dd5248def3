// The commands of a chat: a table of rows, each with its function. A new one is a function and a row, which
// /help, Tab and the tests find by themselves. branch_commands.cpp has those that move in the tree of
// messages, completion.cpp the candidates for arguments.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/chat/branch_commands.h"
#include "examples/tessera/chat/completion.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"

namespace tessera::repl {

namespace {

std::string quoted_path(const std::string& path) { return "'" + printable(path, 400) + "'"; }

Result<void> need_argument(std::string_view args, const char* command, const char* what) {
    if (!args.empty()) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected %s after it, found nothing", command, what);
}

struct Alias {
    std::string_view name, command;
};
/// Further names of commands, most of them from llama.cpp and ollama.
constexpr Alias kAliases[] = {{"/?", "/help"},       {"/h", "/help"},      {"/bye", "/exit"},
                              {"/quit", "/exit"},    {"/q", "/exit"},      {"/new", "/clear"},
                              {"/reset", "/clear"},  {"/regen", "/retry"}, {"/regenerate", "/retry"},
                              {"/read", "/file"},    {"/attach", "/file"}, {"/open", "/load"},
                              {"/settings", "/set"}, {"/history", "/show"}};

/// "Also: /bye, /quit."
std::string aliases_of(std::string_view command) {
    std::string out;
    for (const Alias& alias : kAliases)
        if (alias.command == command) out += (out.empty() ? "" : ", ") + std::string(alias.name);
    return out;
}

Result<void> help(Repl& repl, std::string_view) {
    constexpr size_t kLeft = 22;
    const size_t width = repl.screen.width();
    std::string out;
    for (const ChatCommand& command : chat_commands()) {
        const std::string left = strf("  %-19s ", (std::string(command.name) + " " + command.args).c_str());
        const std::string also = aliases_of(command.name);
        const std::string text = command.help + (also.empty() ? "" : " (" + also + ")");
        const std::string right = wrapped(text, width > kLeft + 20 ? width - kLeft : 0);
        out += left;
        for (const char c : right) out += c == '\n' ? "\n" + std::string(kLeft, ' ') : std::string(1, c);
        out += '\n';
    }
    for (const char* line :
         {"Any other text is a message. A text of several lines stands between \"\"\" and \"\"\". With a "
          "space "
          "in front a text that begins with / is a message, too.",
          "Ctrl-C stops an answer or removes the line. Ctrl-D, or Ctrl-C twice on an empty line, leaves."})
        out += wrapped(line, width) + "\n";
    return repl.screen.print(out);
}

Result<void> leave(Repl& repl, std::string_view) {
    repl.leaves = true;
    return {};
}

Result<void> clear(Repl& repl, std::string_view) {
    const bool is_lost = !repl.is_saved && repl.autosave.is_on();
    repl.conversation = new_conversation(repl.conversation.system);
    repl.files.clear();
    repl.path.clear();
    repl.undone.reset();
    repl.is_saved = true;
    repl.autosave.begin();
    return repl.screen.note(is_lost ? "A new conversation. /load without a file goes back to the last one."
                                    : "A new conversation.");
}

Result<void> save(Repl& repl, std::string_view args) {
    const std::string path = args.empty() ? repl.path : expanded_path(args);
    TSR_TRY_VOID(need_argument(path, "/save", "a file"));
    std::error_code ignored;
    if (path != repl.path && std::filesystem::exists(path, ignored)) {
        const auto found = console::read_text(path);
        if (!found || !Conversation::parse(*found))
            return fail(ErrorCode::InvalidArgument,
                        "/save: %s exists and is not a conversation, so it is not replaced",
                        quoted_path(path).c_str());
    }
    repl.conversation.settings = repl.settings.changed();
    TSR_TRY_VOID(console::write_file(path, repl.conversation.to_json()));
    repl.path = path;
    repl.is_saved = true;
    return repl.screen.note("Saved to " + quoted_path(path) + ".");
}

Result<void> load(Repl& repl, std::string_view args) { return load_conversation(repl, args); }

Result<void> system_prompt(Repl& repl, std::string_view args) {
    std::string& system = repl.conversation.system;
    if (args.empty())
        return system.empty() ? repl.screen.note("There is no system prompt.")
                              : repl.screen.print(system + "\n");
    system = args == "-" ? "" : std::string(args);
    return repl.screen.note(system.empty() ? "System prompt removed."
                                           : "New system prompt; used from the next answer on.");
}

/// Spellings of ollama's /set that are no name with a value.
struct SetWord {
    std::string_view word, name, value;
};
constexpr SetWord kSetWords[] = {{"think", "think", "on"},      {"nothink", "think", "off"},
                                 {"verbose", "stats", "on"},    {"quiet", "stats", "off"},
                                 {"wordwrap", "wrap", "on"},    {"nowordwrap", "wrap", "off"},
                                 {"noformat", "format", "text"}};

Result<void> set_value(Repl& repl, std::string_view name, std::string_view value) {
    TSR_TRY_VOID(repl.settings.set(name, value));
    return {};
}

Result<void> set(Repl& repl, std::string_view args) {
    const tessera_api::Model& model = repl.talker.model();
    const size_t width = repl.screen.width();
    std::string_view name = args.substr(0, args.find_first_of(" \t="));
    if (name == "parameter") {  // "/set parameter temperature 1", as in ollama
        args = trim(args.substr(name.size()));
        name = args.substr(0, args.find_first_of(" \t="));
    }
    if (args.empty()) return repl.screen.print(repl.settings.table(model, width));
    const std::string_view value = trim(args.substr(std::min(name.size() + 1, args.size())));
    if (name == "system") return system_prompt(repl, value);
    if (!value.empty()) return set_value(repl, name, value);
    for (const SetWord& row : kSetWords)
        if (row.word == name) return set_value(repl, row.name, row.value);
    auto row = repl.settings.table_row(model, name, width);
    return row ? repl.screen.print(*row) : tl::unexpected<Error>(row.error());
}

Result<void> format(Repl& repl, std::string_view args) {
    if (args.empty()) return repl.screen.print(repl.settings.format.name() + "\n");
    // A schema may stand alone: no other form begins with a brace.
    return set_value(repl, "format", args.starts_with('{') ? "schema " + std::string(args) : args);
}

Result<void> result(Repl& repl, std::string_view args) {
    const Conversation& conversation = repl.conversation;
    const int here = conversation.here();
    if (here < 0 || conversation.message(here).calls.empty())
        return fail(ErrorCode::InvalidArgument, "/result: the last answer has no call of a tool");
    TSR_TRY_VOID(need_argument(args, "/result", "the result of the call"));
    Message message;
    message.is_result = true;
    message.content = std::string(args);
    return repl.ask(std::move(message), here);
}

Result<std::string> show_conversation(const Repl& repl) {
    std::string out;
    for (const int i : repl.conversation.line()) {
        const Message& message = repl.conversation.message(i);
        if (message.from_user) {
            out += "> " + std::string(message.is_result ? "/result " : "") + message.content + "\n";
            continue;
        }
        WordWrap wrap;
        const std::string text = wrap.push(message.content, repl.settings.wraps ? repl.screen.width() : 0);
        out += text + wrap.finish();
        if (!message.content.empty()) out += message.content.ends_with('\n') ? "" : "\n";
        for (const Call& call : message.calls) out += call.name + " " + call.arguments + "\n";
        out += "\n";
    }
    return out;
}

Result<std::string> show_model(const Repl& repl) {
    const tsr_model_info info = repl.talker.model().info();
    return strf(
        "name         %s\narchitecture %s\nweights      %s, %lld parameters\ncomputed by  %s\nlayers       "
        "%lld\n"
        "vocabulary   %d tokens\ncontext      %lld tokens, trained for %lld\nanswers      parsed as %s\n",
        printable(repl.talker.model().metadata("general.name")).c_str(), printable(info.architecture).c_str(),
        info.type, wide(info.n_params), info.isa, wide(info.n_layer), info.n_vocab, wide(repl.talker.n_ctx()),
        wide(info.n_ctx_train), repl.talker.chat_info().format);
}

Result<std::string> show_settings(const Repl& repl) {
    std::string out;
    for (const auto& [name, value] : repl.settings.changed()) out += name + " " + value + "\n";
    return out;
}

Result<std::string> show_template(const Repl& repl) {
    return std::string(repl.talker.chat_info().source) + "\n";
}

Result<std::string> show_prompt(const Repl& repl) {
    if (repl.conversation.here() < 0) return std::string();
    TSR_TRY(const tessera_api::Prompt prompt, repl.talker.render(repl.conversation, repl.settings));
    std::string notes;
    for (const std::string_view note : split(prompt.info().notes, '\n'))
        if (!note.empty()) notes += "(" + std::string(note) + ")\n";
    return prompt.text() + "\n" + notes;
}

struct View {
    const char* name;
    Result<std::string> (*show)(const Repl& repl);
};
constexpr View kViews[] = {{"conversation", show_conversation},
                           {"model", show_model},
                           {"settings", show_settings},
                           {"template", show_template},
                           {"prompt", show_prompt}};

Result<void> show(Repl& repl, std::string_view args) {
    std::string names;
    for (const View& view : kViews) {
        names += (names.empty() ? "" : ", ") + std::string(view.name);
        if (args != view.name && !(args.empty() && &view == kViews)) continue;
        TSR_TRY(const std::string text, view.show(repl));
        return text.empty() ? repl.screen.note("There is nothing to show.") : repl.screen.print(text);
    }
    return fail(ErrorCode::InvalidArgument, "/show: expected one of %s, found '%s'", names.c_str(),
                printable(args).c_str());
}

std::string figures_line(const char* label, const Figures& figures) {
    return strf("%-12s %lld tokens, %.1f tokens/s; prompt %lld tokens (%lld cached), %.1f tokens/s\n", label,
                wide(figures.n_generated), figures.decode_rate(), wide(figures.n_prompt),
                wide(figures.n_cached), figures.prompt_rate());
}

/// Tokens of the conversation as the model would be given them next.
Result<std::string> context_text(const Repl& repl) {
    int64_t n = 0;
    if (repl.conversation.here() >= 0) {
        TSR_TRY(const tessera_api::Prompt prompt, repl.talker.render(repl.conversation, repl.settings));
        n = static_cast<int64_t>(prompt.info().n_tokens);
    }
    return strf("%lld of %lld tokens", wide(n), wide(repl.talker.n_ctx()));
}

Result<void> stats(Repl& repl, std::string_view) {
    if (repl.n_answers == 0) return repl.screen.note("There is no answer yet.");
    TSR_TRY(const std::string context, context_text(repl));
    return repl.screen.print(figures_line("last answer", repl.last) +
                             figures_line("all answers", repl.total) +
                             strf("%-12s %s\n%-12s %llu\n", "context", context.c_str(), "seed",
                                  static_cast<unsigned long long>(repl.last.seed)));
}

Result<void> tokens(Repl& repl, std::string_view args) {
    if (args.empty()) {
        TSR_TRY(const std::string context, context_text(repl));
        return repl.screen.print(context + "\n");
    }
    TSR_TRY(const std::vector<int32_t> ids, repl.talker.tokenize(args));
    std::string out = counted(ids.size(), "token", "tokens") + "\n";
    for (const int32_t id : ids) {
        TSR_TRY(const std::string text, repl.talker.spelling(id));
        out += strf("%7d %s", id, json_line(text).c_str());
    }
    return repl.screen.print(out);
}

Result<void> file(Repl& repl, std::string_view args) {
    TSR_TRY_VOID(need_argument(args, "/file", "a file, or - to remove the attached files"));
    if (args == "-") {
        repl.files.clear();
        return repl.screen.note("Attached files removed.");
    }
    const std::string path = expanded_path(args);
    TSR_TRY(const std::string text, console::read_text(path));
    std::string fence = "```";
    while (text.find(fence) != std::string::npos) fence += '`';
    repl.files.push_back(std::filesystem::path(path).filename().string() + ":\n" + fence + "\n" + text +
                         (text.ends_with('\n') ? "" : "\n") + fence + "\n\n");
    TSR_TRY(const std::vector<int32_t> ids, repl.talker.tokenize(repl.files.back()));
    return repl.screen.note(strf("Attached to the next message: %s, %s.", quoted_path(path).c_str(),
                                 counted(ids.size(), "token", "tokens").c_str()));
}

Completions complete_view(const Repl&, std::string_view typed) {
    std::vector<std::string> names;
    for (const View& view : kViews) names.emplace_back(view.name);
    return matching(names, typed);
}

constexpr ChatCommand kCommands[] = {
    {"/help", "", "this list", help},
    {"/exit", "", "leave; so does Ctrl-D", leave},
    {"/clear", "", "begin a new conversation with the same settings", clear},
    {"/undo", "[N]", "remove the last turn, or the last N", undo},
    {"/retry", "", "answer the last message again", retry},
    {"/edit", "[TEXT]", "replace the last message, also one that /undo removed", edit},
    {"/branch", "N", "go to a branch", branch, complete_branch},
    {"/branches", "", "list the branches that /undo, /retry and /edit have made", branches},
    {"/save", "[FILE]", "save all branches and the settings", save, complete_file},
    {"/load", "[FILE]", "continue a saved conversation; without FILE the last one that was kept", load,
     complete_file},
    {"/system", "[TEXT|-]", "show or change the system prompt; - removes it", system_prompt},
    {"/set", "[NAME [VALUE]]", "list the settings, or show or change one; VALUE default resets it", set,
     complete_setting},
    {"/format", "[FORM]",
     "constrain answers: json, schema TEXT|@FILE, grammar TEXT|@FILE, regex TEXT|@FILE; text lifts it",
     format, complete_format},
    {"/show", "[WHAT]", "conversation, model, settings, template or prompt", show, complete_view},
    {"/stats", "", "token counts and rates of the last answer and of all", stats},
    {"/tokens", "[TEXT]", "length of the conversation in tokens, or the tokens of a text", tokens},
    {"/file", "FILE|-", "attach a text file to the next message; - removes attached files", file,
     complete_file},
    {"/result", "TEXT", "the result of the tool that the answer called (--tools)", result},
};

}  // namespace

std::span<const ChatCommand> chat_commands() { return kCommands; }

const ChatCommand* find_command(std::string_view name) {
    for (const Alias& alias : kAliases)
        if (alias.name == name) name = alias.command;
    for (const ChatCommand& command : kCommands)
        if (command.name == name) return &command;
    return nullptr;
}

std::vector<std::string_view> command_names() {
    std::vector<std::string_view> out;
    for (const ChatCommand& command : kCommands) out.emplace_back(command.name);
    for (const Alias& alias : kAliases) out.push_back(alias.name);
    return out;
}

std::string counted(size_t n, const char* one, const char* many) {
    return strf("%zu %s", n, n == 1 ? one : many);
}

std::string beginning(std::string_view text, size_t n_most) {
    text = trim(text);
    const std::string_view line = text.substr(0, text.find('\n'));
    size_t n = 0, at = 0;
    while (at < line.size() && n < n_most) {
        at++;
        while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80) at++;
        n++;
    }
    return std::string(line.substr(0, at)) + (at < text.size() ? " ..." : "");
}

std::string local_time() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local)};
}

Conversation new_conversation(std::string system) {
    Conversation out;
    out.system = std::move(system);
    out.started = local_time();
    return out;
}

Result<void> load_conversation(Repl& repl, std::string_view given) {
    const bool is_kept = given.empty();
    std::string path = expanded_path(given);
    if (is_kept) {
        const Autosave kept(Autosave::default_folder());
        const std::optional<std::string> newest =
            repl.autosave.is_on() ? repl.autosave.newest() : kept.newest();
        if (!newest)
            return fail(ErrorCode::NotFound, "/load: no conversation is kept in %s; expected a file after it",
                        quoted_path(kept.folder()).c_str());
        path = *newest;
    }
    TSR_TRY(const std::string text, console::read_text(path));
    auto loaded = Conversation::parse(text);
    Settings settings;
    Result<void> fits = loaded ? settings.replace(loaded->settings) : tl::unexpected<Error>(loaded.error());
    size_t n_tokens = 0;
    if (fits && loaded->here() >= 0) {
        const auto prompt = repl.talker.render(*loaded, settings);
        if (prompt)
            n_tokens = prompt->info().n_tokens;
        else
            fits = tl::unexpected<Error>(prompt.error());
    }
    if (!fits) return fail_in(quoted_path(path), fits.error());
    repl.conversation = std::move(*loaded);
    repl.settings = settings;
    repl.path = is_kept ? "" : path;
    repl.is_saved = true;
    repl.files.clear();
    repl.undone.reset();
    repl.autosave.begin(is_kept && repl.autosave.is_on() ? path : "");
    const Conversation& conversation = repl.conversation;
    return repl.screen.note("Loaded " +
                            (is_kept ? "the conversation of " + conversation.started : quoted_path(path)) +
                            ": " + counted(conversation.line().size() / 2, "turn", "turns") + ", " +
                            counted(n_tokens, "token", "tokens") + ", " +
                            counted(conversation.ends().size(), "branch", "branches") + ".");
}

}  // namespace tessera::repl
