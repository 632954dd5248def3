// The loop of a chat. A turn either comes to an end or leaves no trace: a message whose answer failed, or was
// stopped before its first word, is taken back.
#include "examples/tessera/chat/repl.h"

#include <unistd.h>

#include <optional>

#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/terminal.h"

namespace tessera::repl {

namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr int64_t kLongPrompt = 512;  ///< tokens that take long enough for a progress bar

void add(Figures& sum, const Figures& more) {
    sum.n_prompt += more.n_prompt;
    sum.n_cached += more.n_cached;
    sum.n_generated += more.n_generated;
    sum.prompt_s += more.prompt_s;
    sum.decode_s += more.decode_s;
}

}  // namespace

/// A line, or all lines between two """.
Result<Input> Repl::next_text() {
    std::string prompt = "> ";
    if (!files.empty()) prompt = strf("[%zu %s] > ", files.size(), files.size() == 1 ? "file" : "files");
    TSR_TRY(Input input, reader.read(prompt, ""));
    if (input.kind != Input::Kind::Text) return input;
    std::string_view rest = trim(input.text);
    if (!rest.starts_with(kQuotes)) {
        reader.remember(input.text);
        return input;
    }
    std::string text(rest.substr(kQuotes.size()));
    while (!trim(text).ends_with(kQuotes)) {
        TSR_TRY(const Input more, reader.read("... ", ""));
        if (more.kind == Input::Kind::End && is_strict_)
            return fail(ErrorCode::Malformed,
                        "expected \"\"\" at the end of a text, found the end of the input");
        if (more.kind != Input::Kind::Text) return Input{Input::Kind::Interrupt, ""};
        text += "\n" + more.text;
    }
    rest = trim(text);
    // A space keeps a text that begins with / from being a command; it goes when the text is taken.
    input.text = " " + std::string(trim(rest.substr(0, rest.size() - kQuotes.size())));
    reader.remember(input.text.substr(1));
    return input;
}

Result<void> Repl::run() {
    while (!leaves) {
        Result<Input> input = next_text();
        if (input && input->kind == Input::Kind::End) return {};
        if (input && input->kind == Input::Kind::Interrupt) {
            if (was_interrupted_) return {};
            was_interrupted_ = true;
            TSR_TRY_VOID(screen.note("Ctrl-C once more leaves, as do Ctrl-D and /exit."));
            continue;
        }
        was_interrupted_ = false;
        const Result<void> done = input ? take(input->text) : tl::unexpected<Error>(std::move(input.error()));
        if (done) continue;
        if (is_strict_ || console::stdout_gone()) return done;
        TSR_TRY_VOID(screen.error(done.error().message));
    }
    return {};
}

Result<void> Repl::take(const std::string& text) {
    if (trim(text).empty()) return {};
    if (text.front() != '/') return ask(std::string(trim(text)), conversation.here());
    const std::string_view name = std::string_view(text).substr(0, text.find_first_of(" \t\n"));
    std::vector<std::string_view> names;
    for (const ChatCommand& command : chat_commands()) {
        names.push_back(command.name);
        if (name != command.name) continue;
        const std::string_view args = trim(std::string_view(text).substr(name.size()));
        if (!args.empty() && !*command.args)
            return fail(ErrorCode::InvalidArgument, "%s: expected nothing behind it, found '%s'",
                        command.name, printable(args).c_str());
        return command.run(*this, args);
    }
    const std::string_view nearest = nearest_name(name, names);
    const std::string hint = nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
    return fail(ErrorCode::NotFound,
                "there is no command '%s'%s (/help lists them; a message that begins with / needs a space in "
                "front)",
                printable(name).c_str(), hint.c_str());
}

Result<void> Repl::ask(std::string text, int otherwise) {
    std::string content;
    for (const std::string& file : files) content += file;
    Message question;
    question.content = content + std::move(text);
    conversation.add(std::move(question));
    const Result<bool> answered = answer();
    if (answered && *answered) {
        files.clear();
        return {};
    }
    conversation.drop_newest();
    conversation.go_to(otherwise);
    if (!answered) return tl::unexpected<Error>(answered.error());
    return {};
}

Result<void> Repl::answer_again(int otherwise) {
    const Result<bool> answered = answer();
    if (answered && *answered) return {};
    conversation.go_to(otherwise);
    if (!answered) return tl::unexpected<Error>(answered.error());
    return {};
}

/// Whether there is an answer, which the present line then ends with.
Result<bool> Repl::answer() {
    std::optional<ProgressBar> bar;
    Listener listener;
    listener.on_prompt = [&](int64_t n_read, int64_t n_prompt) {
        const bool shows =
            console::verbosity() != console::Verbosity::Quiet && console::is_screen(STDERR_FILENO);
        if (!bar && n_prompt - n_read > kLongPrompt)
            bar.emplace("prompt", static_cast<uint64_t>(n_prompt), ProgressBar::Unit::Tokens, shows);
        if (bar) bar->update(static_cast<uint64_t>(n_read));
        if (n_read == n_prompt) bar.reset();
    };
    listener.on_text = [&](tsr_piece_kind kind, std::string_view text) -> Result<void> {
        bar.reset();
        if (kind == TSR_PIECE_CONTENT) return screen.content(text);
        return settings.shows_reasoning ? screen.reasoning(text) : Result<void>();
    };
    Result<Answered> answered = talker.answer(conversation, settings, listener);
    bar.reset();
    TSR_TRY_VOID(screen.end_answer());
    if (!answered) return tl::unexpected<Error>(std::move(answered.error()));
    last = answered->figures;
    add(total, last);
    n_answers++;
    TSR_TRY_VOID(tell(*answered));
    if (answered->message.cut == Cut::Interrupt && answered->message.content.empty()) return false;
    conversation.add(std::move(answered->message));
    return true;
}

/// What the user should know of an answer besides its text.
Result<void> Repl::tell(const Answered& answered) {
    const auto n_ctx = static_cast<long long>(talker.n_ctx());
    const Figures& figures = answered.figures;
    const Message& message = answered.message;
    if (settings.shows_stats)
        TSR_TRY_VOID(screen.note(strf(
            "%lld tokens, %.1f tokens/s; prompt of %lld tokens, %lld of them known, %.1f tokens/s; context "
            "%lld of %lld",
            static_cast<long long>(figures.n_generated), figures.decode_rate(),
            static_cast<long long>(figures.n_prompt), static_cast<long long>(figures.n_cached),
            figures.prompt_rate(), static_cast<long long>(figures.n_used()), n_ctx)));
    switch (message.cut) {
        case Cut::Interrupt:
            was_interrupted_ = true;
            leaves = leaves || is_strict_;
            TSR_TRY_VOID(
                screen.note(message.content.empty() ? "Stopped; the message was taken back." : "Stopped."));
            break;
        case Cut::Length:
            TSR_TRY_VOID(screen.note(strf("The answer was cut at %lld tokens (/set n_predict).",
                                          static_cast<long long>(figures.n_generated))));
            break;
        case Cut::Context:
            return screen.note(
                strf("The context of %lld positions is full, so the answer ends here (/undo or /clear make "
                     "room, --ctx N a longer context).",
                     n_ctx));
        case Cut::Whole:
            if (message.content.empty()) TSR_TRY_VOID(screen.note("The model answered nothing."));
            break;
    }
    if (figures.n_used() * 10 < n_ctx * 9) return {};
    return screen.note(strf("The context is nearly full: %lld of %lld positions.",
                            static_cast<long long>(figures.n_used()), n_ctx));
}

}  // namespace tessera::repl
