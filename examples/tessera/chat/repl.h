#pragma once
// The chat itself: what is read is a command or a message, and messages are answered.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "examples/tessera/chat/conversation.h"
#include "examples/tessera/chat/line_reader.h"
#include "examples/tessera/chat/screen.h"
#include "examples/tessera/chat/settings.h"
#include "examples/tessera/chat/talker.h"

namespace tessera::repl {

class Repl;

struct ChatCommand {
    const char* name;  ///< "/undo"
    const char* args;  ///< as /help shows them; empty: it takes none
    const char* help;
    Result<void> (*run)(Repl& repl, std::string_view args);
};

/// In the order in which /help lists them.
std::span<const ChatCommand> chat_commands();
/// Loads a conversation; what /load and --load do.
Result<void> load_conversation(Repl& repl, std::string_view path);
/// A conversation that begins now.
Conversation new_conversation(std::string system);

/// A conversation between two turns, and the parts that make the next one. The commands work on its members.
class Repl {
  public:
    /// `is_strict`: an error ends the chat, as nobody is there to read it.
    Repl(Talker& the_talker, Screen& the_screen, LineReader& the_reader, bool is_strict)
        : talker(the_talker), screen(the_screen), reader(the_reader), is_strict_(is_strict) {}

    /// Until the input ends or /exit. Errors: of the streams; of anything, if it is strict.
    Result<void> run();

    /// A message behind the present line, with the files that wait for one, and its answer. Where there is no
    /// answer the line is that which ends with `otherwise`.
    Result<void> ask(std::string text, int otherwise);
    /// Another answer to the question that the present line ends with.
    Result<void> answer_again(int otherwise);

    Talker& talker;
    Screen& screen;
    LineReader& reader;
    Conversation conversation;
    Settings settings;
    std::vector<std::string> files;  ///< texts that go in front of the next message
    std::string path;                ///< where the conversation was saved or loaded last
    Figures last, total;             ///< of the last answer; of all
    int64_t n_answers = 0;
    bool leaves = false;

  private:
    Result<Input> next_text();
    Result<void> take(const std::string& text);
    Result<bool> answer();
    Result<void> tell(const Answered& answered);

    bool is_strict_;
    bool was_interrupted_ = false;  ///< by the last key
};

}  // namespace tessera::repl
