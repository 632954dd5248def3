#pragma once
// The chat itself: each input is a command or a message, and messages are answered.
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "examples/tessera/chat/autosave.h"
#include "examples/tessera/chat/conversation.h"
#include "examples/tessera/chat/line_reader.h"
#include "examples/tessera/chat/screen.h"
#include "examples/tessera/chat/settings.h"
#include "examples/tessera/chat/talker.h"

namespace tessera::repl {

class Repl;

struct ChatCommand {
    const char* name;  ///< "/undo"
    const char* args;  ///< as /help shows them; empty: the command takes none
    const char* help;
    Result<void> (*run)(Repl& repl, std::string_view args);
    /// Candidates for the argument that begins with `typed`; null: none.
    Completions (*complete)(const Repl& repl, std::string_view typed) = nullptr;
};

/// In the order in which /help lists them.
std::span<const ChatCommand> chat_commands();
/// The command with this name or alias ("/quit"), or null.
const ChatCommand* find_command(std::string_view name);
/// All names and aliases.
std::vector<std::string_view> command_names();
/// Completes commands and their arguments; outlived by `repl`.
Completions complete(const Repl& repl, std::string_view line);

/// Loads a conversation as /load and --load do. An empty path: the last one that was kept automatically.
Result<void> load_conversation(Repl& repl, std::string_view path);
/// A conversation that begins at this moment.
Conversation new_conversation(std::string system);
/// The local time, "2026-08-22T10:20:30".
std::string local_time();
/// The first line of a text, at most `n_most` characters of it.
std::string beginning(std::string_view text, size_t n_most = 60);
/// For %lld.
inline long long wide(int64_t n) { return static_cast<long long>(n); }
/// "1 turn", "2 turns".
std::string counted(size_t n, const char* one, const char* many);

/// A conversation between two turns, and the parts that make the next one. The commands work on its members.
class Repl {
  public:
    /// `is_strict`: the input is a pipe, so an error ends the chat.
    Repl(Talker& the_talker, Screen& the_screen, bool is_strict)
        : talker(the_talker), screen(the_screen), is_strict_(is_strict) {}

    /// Runs until the input ends, /exit, or a signal that ends the program (ended_by_signal()). `first`: a
    /// message to begin with; empty: none. Errors: of the streams; if it is strict, any error.
    Result<void> run(const std::string& first);
    /// SIGTERM or SIGHUP if one of them ended the chat, else 0.
    int ended_by_signal() const { return ended_by_signal_; }

    /// Appends a message, with the files that are attached to it, and its answer. Without an answer the
    /// current line becomes the one that ends with `otherwise`.
    Result<void> ask(Message question, int otherwise);
    Result<void> ask(std::string text, int otherwise);
    /// Generates another answer to the message at the end of the current line. `variant`: the settings for
    /// it.
    Result<void> answer_again(int otherwise, const Settings& variant);

    Talker& talker;
    Screen& screen;
    std::unique_ptr<LineReader> reader;  ///< set before run()
    Conversation conversation;
    Settings settings;
    Autosave autosave{""};
    std::vector<std::string> files;  ///< texts that go in front of the next message
    std::string path;                ///< where the conversation was saved or loaded last
    std::optional<int> undone;       ///< the message that /undo has removed from the line, for /edit
    Figures last, total;             ///< of the last answer; of all answers
    int64_t n_answers = 0;
    bool is_saved = true;  ///< the file at `path` has the whole conversation, or there is none
    bool leaves = false;

  private:
    Result<Input> next_text();
    Result<void> survive(Result<void> done);
    Result<void> on_interrupt(const Input& input);
    Result<void> take(const std::string& text);
    Result<bool> answer(const Settings& with);
    Result<void> report(const Answered& answered);
    void keep(const Message* unfinished);
    Result<void> take_leave();

    static constexpr double kNever = -std::numeric_limits<double>::infinity();

    bool is_strict_;
    int ended_by_signal_ = 0;
    bool is_kept_ = true;  ///< the autosave has the whole conversation
    bool warned_of_keep_ = false;
    double interrupted_at_ = kNever, answered_at_ = kNever;  ///< seconds of now_seconds()
};

}  // namespace tessera::repl
