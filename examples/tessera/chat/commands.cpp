// The commands of a chat: a table of rows, each with its function. A new one is a function and a row, which
// /help, Tab and the tests find by themselves.
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/chat/repl.h"
#include "examples/tessera/console.h"
#include "examples/tessera/json.h"

namespace tessera::repl {

namespace {

long long wide(int64_t n) { return static_cast<long long>(n); }

/// The first line of a text, cut.
std::string beginning(std::string_view text) {
    constexpr size_t kMost = 60;
    const std::string_view line = text.substr(0, text.find('\n'));
    size_t n = 0, at = 0;
    while (at < line.size() && n < kMost) {
        at++;
        while (at < line.size() && (static_cast<unsigned char>(line[at]) & 0xc0) == 0x80) at++;
        n++;
    }
    return std::string(line.substr(0, at)) + (at < text.size() ? " ..." : "");
}

/// ~/ is the home folder, as in a shell.
std::string expanded(std::string_view path) {
    const char* home = std::getenv("HOME");
    if (path.starts_with("~/") && home) return home + std::string(path.substr(1));
    return std::string(path);
}

std::string quoted_path(const std::string& path) { return "'" + printable(path, 400) + "'"; }

Result<void> need_argument(std::string_view args, const char* command, const char* what) {
    if (!args.empty()) return {};
    return fail(ErrorCode::InvalidArgument, "%s: expected %s behind it, found nothing", command, what);
}

Result<int64_t> count_argument(std::string_view args, const char* command, int64_t most) {
    const std::optional<int64_t> n = parse_int(args);
    if (n && *n >= 1 && *n <= most) return *n;
    return fail(ErrorCode::InvalidArgument, "%s: expected a number from 1 to %lld, found '%s'", command,
                wide(most), printable(args).c_str());
}

std::string counted(size_t n, const char* one, const char* many) {
    return strf("%zu %s", n, n == 1 ? one : many);
}

size_t n_turns(const Conversation& conversation, int last) { return conversation.line_to(last).size() / 2; }

Result<void> help(Repl& repl, std::string_view) {
    std::string out;
    for (const ChatCommand& command : chat_commands())
        out += strf("  %-24s %s\n", (std::string(command.name) + " " + command.args).c_str(), command.help);
    out +=
        "Anything else is a message. A text of several lines stands between \"\"\" and \"\"\".\n"
        "Ctrl-C stops an answer, and once more leaves.\n";
    return repl.screen.print(out);
}

Result<void> leave(Repl& repl, std::string_view) {
    repl.leaves = true;
    return {};
}

Result<void> clear(Repl& repl, std::string_view) {
    repl.conversation = new_conversation(repl.conversation.system);
    repl.files.clear();
    repl.path.clear();
    return repl.screen.note("A new conversation.");
}

Result<void> undo(Repl& repl, std::string_view args) {
    Conversation& conversation = repl.conversation;
    const auto most = static_cast<int64_t>(n_turns(conversation, conversation.here()));
    if (most == 0) return fail(ErrorCode::InvalidArgument, "/undo: the conversation is empty");
    TSR_TRY(const int64_t n, args.empty() ? Result<int64_t>(1) : count_argument(args, "/undo", most));
    std::string question;
    for (int64_t i = 0; i < n; i++) {
        const Message& taken = conversation.message(conversation.last_question());
        question = taken.content;
        conversation.go_to(taken.parent);
    }
    return repl.screen.note("Back to before: " + beginning(question));
}

Result<void> retry(Repl& repl, std::string_view) {
    Conversation& conversation = repl.conversation;
    const int before = conversation.here();
    if (before < 0) return fail(ErrorCode::InvalidArgument, "/retry: there is no answer yet");
    conversation.go_to(conversation.last_question());
    return repl.answer_again(before);
}

Result<void> edit(Repl& repl, std::string_view args) {
    Conversation& conversation = repl.conversation;
    const int before = conversation.here();
    if (before < 0) return fail(ErrorCode::InvalidArgument, "/edit: there is no message yet");
    const Message question = conversation.message(conversation.last_question());
    std::string text(args);
    if (text.empty()) {
        if (!repl.reader.edits()) return need_argument(args, "/edit", "the new text");
        TSR_TRY(const Input input, repl.reader.read("edit > ", question.content));
        text = std::string(trim(input.text));
        if (input.kind != Input::Kind::Text || text.empty()) return repl.screen.note("Nothing was changed.");
        repl.reader.remember(text);
    }
    conversation.go_to(question.parent);
    return repl.ask(text, before);
}

std::string branch_line(const Conversation& conversation, size_t number, int end) {
    const std::vector<int> line = conversation.line_to(end);
    return strf("%c %2zu  %s  %s\n", end == conversation.here() ? '*' : ' ', number,
                counted(line.size() / 2, "turn", "turns").c_str(),
                beginning(conversation.message(line[line.size() - 2]).content).c_str());
}

Result<void> branches(Repl& repl, std::string_view) {
    std::string out;
    size_t number = 0;
    for (const int end : repl.conversation.ends()) out += branch_line(repl.conversation, ++number, end);
    return out.empty() ? repl.screen.note("The conversation is empty.") : repl.screen.print(out);
}

Result<void> branch(Repl& repl, std::string_view args) {
    const std::vector<int> ends = repl.conversation.ends();
    if (ends.empty()) return fail(ErrorCode::InvalidArgument, "/branch: the conversation is empty");
    TSR_TRY(const int64_t n, count_argument(args, "/branch", static_cast<int64_t>(ends.size())));
    const int end = ends[static_cast<size_t>(n - 1)];
    repl.conversation.go_to(end);
    return repl.screen.note("Now: " +
                            beginning(repl.conversation.message(repl.conversation.last_question()).content));
}

Result<void> save(Repl& repl, std::string_view args) {
    const std::string path = args.empty() ? repl.path : expanded(args);
    TSR_TRY_VOID(need_argument(path, "/save", "a file"));
    std::error_code ignored;
    if (path != repl.path && std::filesystem::exists(path, ignored)) {
        const auto found = console::read_text(path);
        if (!found || !Conversation::parse(*found))
            return fail(ErrorCode::InvalidArgument,
                        "/save: %s exists and is no conversation, so it is not replaced",
                        quoted_path(path).c_str());
    }
    repl.conversation.settings = repl.settings.changed();
    TSR_TRY_VOID(console::write_file(path, repl.conversation.to_json()));
    repl.path = path;
    return repl.screen.note("Saved to " + quoted_path(path) + ".");
}

Result<void> load(Repl& repl, std::string_view args) {
    TSR_TRY_VOID(need_argument(args, "/load", "a file"));
    return load_conversation(repl, args);
}

Result<void> system_prompt(Repl& repl, std::string_view args) {
    std::string& system = repl.conversation.system;
    if (args.empty())
        return system.empty() ? repl.screen.note("There is none.") : repl.screen.print(system + "\n");
    system = args == "-" ? "" : std::string(args);
    return repl.screen.note(system.empty() ? "There is none any more." : "From the next answer on.");
}

Result<void> set(Repl& repl, std::string_view args) {
    if (args.empty()) return repl.screen.print(repl.settings.table(repl.talker.model()));
    const std::string_view name = args.substr(0, args.find_first_of(" \t="));
    const std::string_view value = trim(args.substr(std::min(name.size() + 1, args.size())));
    TSR_TRY_VOID(need_argument(value, "/set", "a name and a value"));
    return repl.settings.set(name, value);
}

Result<std::string> show_conversation(const Repl& repl) {
    std::string out;
    for (const int i : repl.conversation.line()) {
        const Message& message = repl.conversation.message(i);
        if (message.from_user)
            out += "> " + message.content + "\n";
        else
            out += message.content + (message.content.ends_with('\n') ? "\n" : "\n\n");
    }
    return out;
}

Result<std::string> show_model(const Repl& repl) {
    const tsr_model_info info = repl.talker.model().info();
    return strf(
        "name         %s\narchitecture %s\nweights      %s, %lld parameters\ncomputed by  %s\nlayers       "
        "%lld\n"
        "vocabulary   %d tokens\ncontext      %lld positions, trained for %lld\nanswers      in the form "
        "%s\n",
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
    return strf("%-12s %lld tokens, %.1f tokens/s; prompt %lld, %lld known, %.1f tokens/s\n", label,
                wide(figures.n_generated), figures.decode_rate(), wide(figures.n_prompt),
                wide(figures.n_cached), figures.prompt_rate());
}

Result<void> stats(Repl& repl, std::string_view) {
    if (repl.n_answers == 0) return repl.screen.note("There is no answer yet.");
    return repl.screen.print(
        figures_line("last answer", repl.last) + figures_line("all answers", repl.total) +
        strf("%-12s %lld of %lld positions\n%-12s %llu\n", "context", wide(repl.last.n_used()),
             wide(repl.talker.n_ctx()), "seed", static_cast<unsigned long long>(repl.last.seed)));
}

Result<void> tokens(Repl& repl, std::string_view args) {
    if (args.empty()) {
        int64_t n = 0;
        if (repl.conversation.here() >= 0) {
            TSR_TRY(const tessera_api::Prompt prompt, repl.talker.render(repl.conversation, repl.settings));
            n = static_cast<int64_t>(prompt.info().n_tokens);
        }
        return repl.screen.print(strf("%lld of %lld positions\n", wide(n), wide(repl.talker.n_ctx())));
    }
    TSR_TRY(const std::vector<int32_t> ids, repl.talker.tokenize(args));
    std::string out = strf("%zu tokens\n", ids.size());
    for (const int32_t id : ids) {
        TSR_TRY(const std::string text, repl.talker.spelling(id));
        out += strf("%7d %s", id, json_line(text).c_str());
    }
    return repl.screen.print(out);
}

Result<void> file(Repl& repl, std::string_view args) {
    TSR_TRY_VOID(need_argument(args, "/file", "a file, or - to take files back"));
    if (args == "-") {
        repl.files.clear();
        return repl.screen.note("No file goes along.");
    }
    const std::string path = expanded(args);
    TSR_TRY(const std::string text, console::read_text(path));
    std::string fence = "```";
    while (text.find(fence) != std::string::npos) fence += '`';
    repl.files.push_back(std::filesystem::path(path).filename().string() + ":\n" + fence + "\n" + text +
                         (text.ends_with('\n') ? "" : "\n") + fence + "\n\n");
    TSR_TRY(const std::vector<int32_t> ids, repl.talker.tokenize(repl.files.back()));
    return repl.screen.note(
        strf("%s goes along with the next message: %zu tokens.", quoted_path(path).c_str(), ids.size()));
}

constexpr ChatCommand kCommands[] = {
    {"/help", "", "this list", help},
    {"/exit", "", "leave; so does Ctrl-D", leave},
    {"/clear", "", "begin a new conversation with the same settings", clear},
    {"/undo", "[N]", "take back the last turn, or N of them", undo},
    {"/retry", "", "answer the last message again", retry},
    {"/edit", "[TEXT]", "say something else instead of the last message", edit},
    {"/branch", "N", "go to a branch", branch},
    {"/branches", "", "list what /undo, /retry and /edit leave behind", branches},
    {"/save", "[FILE]", "save all branches and the settings", save},
    {"/load", "FILE", "go on with a saved conversation", load},
    {"/system", "[TEXT|-]", "show or change the system prompt; - removes it", system_prompt},
    {"/set", "[NAME VALUE]", "list the settings, or change one; default resets it", set},
    {"/show", "[WHAT]", "conversation, model, settings, template or prompt", show},
    {"/stats", "", "figures of the last answer and of all", stats},
    {"/tokens", "[TEXT]", "length of the conversation, or the tokens of a text", tokens},
    {"/file", "FILE|-", "send a text file along; - takes files back", file},
};

}  // namespace

std::span<const ChatCommand> chat_commands() { return kCommands; }

Conversation new_conversation(std::string system) {
    Conversation out;
    out.system = std::move(system);
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    ::localtime_r(&now, &local);
    char text[32];
    out.started.assign(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &local));
    return out;
}

Result<void> load_conversation(Repl& repl, std::string_view given) {
    const std::string path = expanded(given);
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
    repl.path = path;
    repl.files.clear();
    return repl.screen.note("Loaded " + quoted_path(path) + ": " +
                            counted(n_turns(repl.conversation, repl.conversation.here()), "turn", "turns") +
                            ", " + counted(n_tokens, "token", "tokens") + ", " +
                            counted(repl.conversation.ends().size(), "branch", "branches") + ".");
}

}  // namespace tessera::repl
