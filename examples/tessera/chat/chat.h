#pragma once
// A chat with a model, as `tessera chat` runs it; other commands that fall back to a chat call run_chat().
#include <string>

#include "common/expected.h"
#include "examples/tessera/chat/settings.h"
#include "examples/tessera/chat/talker.h"
#include "examples/tessera/constraint_flags.h"

namespace tessera {

/// The options of a chat, with the defaults of `tessera chat`.
struct ChatArgs {
    repl::TalkerOptions talker;  ///< the model and how it is computed
    repl::Settings settings;
    ConstraintFlags constraint;  ///< becomes settings.format by check_chat()
    std::string prompt;          ///< the first message; empty: none
    std::string system, load, history, kv, tools_file;
    bool continues = false, no_autosave = false;
    bool no_think = false, hide_reasoning = false, stats = false;
    bool no_color = false, no_wrap = false, no_history = false;
};

/// Checks the options and fills in the members of `talker` and `settings` that follow from the others.
/// Errors: InvalidArgument, naming the option.
Result<void> check_chat(ChatArgs& args);

/// Runs the chat on standard input and output, after check_chat(). Errors: as of repl::Repl::run(), or the
/// model's.
Result<void> run_chat(const ChatArgs& args);

}  // namespace tessera
