// The loop of a chat. A turn either ends with an answer or leaves no trace: a message whose answer failed, or
// was stopped before its first word, is removed again. On a terminal the conversation is kept in the autosave
// before, while and after an answer is generated, so that at most kKeepSeconds of an answer are lost to a
// crash.
#include "examples/tessera/chat/repl.h"

#include <unistd.h>

#include <chrono>

#include "common/strings.h"
#include "examples/tessera/chat/answer_guard.h"
#include "examples/tessera/console.h"
#include "examples/tessera/terminal.h"

namespace tessera::repl {

namespace {

constexpr std::string_view kQuotes = "\"\"\"";
constexpr int64_t kLongPrompt = 512;  // tokens; longer ones get a progress bar
constexpr double kLeaveSeconds = 2;   // between the two Ctrl-C that leave
constexpr double kAnswerSeconds = 1;  // a Ctrl-C so soon after an answer was meant to stop it
constexpr double kKeepSeconds = 2;    // between two autosaves of a growing answer

void add(Figures& sum, const Figures& more) {
    sum.n_prompt += more.n_prompt;
    sum.n_cached += more.n_cached;
    sum.n_generated += more.n_generated;
    sum.prompt_s += more.prompt_s;
    sum.decode_s += more.decode_s;
}

double now_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

/// A line, or all lines between two """.
Result<Input> Repl::next_text() {
    std::string prompt = "> ";
    if (!files.empty()) prompt = strf("[%s] > ", counted(files.size(), "file", "files").c_str());
    TSR_TRY(Input input, reader->read(prompt, ""));
    if (input.kind != Input::Kind::Text) return input;
    std::string_view rest = trim(input.text);
    if (!rest.starts_with(kQuotes)) {
        reader->remember(input.text);
        return input;
    }
    std::string text(rest.substr(kQuotes.size()));
    while (!trim(text).ends_with(kQuotes)) {
        TSR_TRY(const Input more, reader->read("... ", ""));
        if (more.kind == Input::Kind::End && is_strict_)
            return fail(ErrorCode::Malformed,
                        "expected \"\"\" at the end of a text, found the end of the input");
        if (more.kind != Input::Kind::Text) return Input{Input::Kind::Interrupt, kQuotes.data()};
        text += "\n" + more.text;
    }
    rest = trim(text);
    // The space keeps a text that begins with / from being a command; take() removes it.
    input.text = " " + std::string(trim(rest.substr(0, rest.size() - kQuotes.size())));
    reader->remember(input.text.substr(1));
    return input;
}

/// Shows an error and continues, where a user is there to read it.
Result<void> Repl::survive(Result<void> done) {
    if (done || is_strict_ || console::stdout_gone() || ended_by_signal_ != 0) return done;
    return screen.error(done.error().message);
}

Result<void> Repl::on_interrupt(const Input& input) {
    const double now = now_seconds(), before = interrupted_at_;
    interrupted_at_ = kNever;
    if (!input.text.empty()) return {};  // only the line is gone
    if (now - before <= kLeaveSeconds) {
        leaves = true;
        return {};
    }
    if (now - answered_at_ > kAnswerSeconds) interrupted_at_ = now;
    return screen.note("Ctrl-C twice on an empty line leaves, as do Ctrl-D and /exit.");
}

Result<void> Repl::run(const std::string& first) {
    if (!first.empty()) {
        if (screen.is_terminal()) TSR_TRY_VOID(screen.print("> " + first + "\n"));
        TSR_TRY_VOID(survive(ask(first, conversation.here())));
    }
    while (!leaves) {
        Result<Input> input = next_text();
        if (input && input->kind == Input::Kind::End) break;
        if (input && input->kind == Input::Kind::Interrupt) {
            TSR_TRY_VOID(on_interrupt(*input));
            continue;
        }
        interrupted_at_ = kNever;
        TSR_TRY_VOID(survive(input ? take(input->text) : tl::unexpected<Error>(std::move(input.error()))));
    }
    return ended_by_signal_ == 0 ? take_leave() : Result<void>();
}

/// Says how to find the conversation again.
Result<void> Repl::take_leave() {
    if (is_strict_ || is_saved || conversation.messages().empty()) return {};
    if (autosave.is_on() && !is_kept_) keep(nullptr);
    if (!autosave.is_on() || !is_kept_) return screen.note("The conversation was not saved.");
    return screen.note("Kept: `tessera chat --continue`, or /load in a chat, continues this conversation.");
}

Result<void> Repl::take(const std::string& text) {
    if (trim(text).empty()) return {};
    if (text.front() != '/') return ask(std::string(trim(text)), conversation.here());
    const std::string_view name = std::string_view(text).substr(0, text.find_first_of(" \t\n"));
    if (const ChatCommand* command = find_command(name)) {
        const std::string_view args = trim(std::string_view(text).substr(name.size()));
        if (!args.empty() && !*command->args)
            return fail(ErrorCode::InvalidArgument, "%s takes no argument, found '%s'", command->name,
                        printable(args).c_str());
        return command->run(*this, args);
    }
    const std::vector<std::string_view> names = command_names();
    const std::string_view nearest = nearest_name(name, names);
    const std::string hint = nearest.empty() ? "" : "; did you mean " + std::string(nearest) + "?";
    return fail(ErrorCode::NotFound, "unknown command %s%s (/help lists them)", printable(name, 40).c_str(),
                hint.c_str());
}

Result<void> Repl::ask(std::string text, int otherwise) {
    std::string content;
    for (const std::string& file : files) content += file;
    Message question;
    question.content = content + std::move(text);
    TSR_TRY_VOID(ask(std::move(question), otherwise));
    return {};
}

Result<void> Repl::ask(Message question, int otherwise) {
    const bool takes_files = !question.is_result;
    conversation.add(std::move(question));
    const Result<bool> answered = answer(settings);
    if (answered && *answered) {
        if (takes_files) files.clear();
        return {};
    }
    conversation.drop_newest();
    conversation.go_to(otherwise);
    if (!answered) return tl::unexpected<Error>(answered.error());
    return {};
}

Result<void> Repl::answer_again(int otherwise, const Settings& variant) {
    const Result<bool> answered = answer(variant);
    if (answered && *answered) return {};
    conversation.go_to(otherwise);
    if (!answered) return tl::unexpected<Error>(answered.error());
    return {};
}

/// Puts the conversation into the autosave, with an answer that is still being generated if there is one.
/// Warns once where that fails.
void Repl::keep(const Message* unfinished) {
    if (!autosave.is_on()) return;
    Result<void> kept;
    conversation.settings = settings.changed();
    if (unfinished) {
        const int here = conversation.here();
        conversation.add(*unfinished);
        kept = autosave.keep(conversation);
        conversation.drop_newest();
        conversation.go_to(here);
    } else {
        kept = autosave.keep(conversation);
    }
    is_kept_ = kept.has_value();
    if (is_kept_ || warned_of_keep_) return;
    warned_of_keep_ = true;
    console::note("warning: %s (/save FILE saves it elsewhere)", kept.error().message.c_str());
}

/// Whether there is an answer, which is then the end of the current line.
Result<bool> Repl::answer(const Settings& with) {
    undone.reset();
    screen.set_wrap(with.wraps);
    Message partial;
    partial.from_user = false;
    partial.cut = Cut::Interrupt;
    double kept_at = now_seconds();
    keep(&partial);
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
        if (kind != TSR_PIECE_CALL) (kind == TSR_PIECE_CONTENT ? partial.content : partial.reasoning) += text;
        if (now_seconds() - kept_at > kKeepSeconds) {
            keep(&partial);
            kept_at = now_seconds();
        }
        if (kind == TSR_PIECE_CONTENT) return screen.content(text);
        if (kind == TSR_PIECE_CALL) return screen.call(text);
        return with.shows_reasoning ? screen.reasoning(text) : Result<void>();
    };
    Result<Answered> answered = talker.answer(conversation, with, listener);
    bar.reset();
    answered_at_ = now_seconds();
    ended_by_signal_ = AnswerGuard::ending_signal();
    leaves = leaves || ended_by_signal_ != 0;
    if (!answered && !partial.content.empty()) keep(&partial);
    const Result<void> ended = screen.end_answer();
    if (!answered) return tl::unexpected<Error>(std::move(answered.error()));
    last = answered->figures;
    add(total, last);
    n_answers++;
    const Message& message = answered->message;
    const bool counts = message.cut != Cut::Interrupt || !message.content.empty() || !message.calls.empty();
    const Answered said = *answered;
    if (counts) {
        answered->message.time = local_time();
        conversation.add(std::move(answered->message));
        is_saved = false;
        keep(nullptr);
    }
    // A terminal that is gone takes no text; the answer is kept by then.
    if (ended_by_signal_ != 0) return counts;
    TSR_TRY_VOID(ended);
    TSR_TRY_VOID(report(said));
    return counts;
}

/// Tells the user about an answer, besides its text.
Result<void> Repl::report(const Answered& answered) {
    const int64_t n_ctx = talker.n_ctx();
    const Figures& figures = answered.figures;
    const Message& message = answered.message;
    if (settings.shows_stats)
        TSR_TRY_VOID(screen.note(strf(
            "%s, %.1f tokens/s; prompt %s (%lld cached), %.1f tokens/s; context %lld of %lld",
            counted(static_cast<size_t>(figures.n_generated), "token", "tokens").c_str(),
            figures.decode_rate(), counted(static_cast<size_t>(figures.n_prompt), "token", "tokens").c_str(),
            wide(figures.n_cached), figures.prompt_rate(), wide(figures.n_used()), wide(n_ctx))));
    switch (message.cut) {
        case Cut::Interrupt:
            leaves = leaves || is_strict_;
            TSR_TRY_VOID(screen.note(message.content.empty() && message.calls.empty()
                                         ? "Stopped before the answer began; the message was removed."
                                         : "Stopped."));
            break;
        case Cut::Length:
            TSR_TRY_VOID(screen.note(
                strf("Stopped after %s, the limit (/set n_predict N changes it).",
                     counted(static_cast<size_t>(figures.n_generated), "token", "tokens").c_str())));
            break;
        case Cut::Context:
            return screen.note(
                strf("The context of %lld tokens is full, so the answer ends here. /undo and /clear make "
                     "room; --ctx N sets a longer context.",
                     wide(n_ctx)));
        case Cut::Whole:
            if (!message.calls.empty())
                TSR_TRY_VOID(screen.note("/result TEXT answers the call."));
            else if (message.content.empty())
                TSR_TRY_VOID(screen.note("The answer is empty."));
            break;
    }
    if (figures.n_used() * 10 < n_ctx * 9) return {};
    return screen.note(
        strf("The context is nearly full: %lld of %lld tokens.", wide(figures.n_used()), wide(n_ctx)));
}

}  // namespace tessera::repl
