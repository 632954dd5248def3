#pragma once
// Commands and their options. A command is a row of the table in main.cpp; its file declares the options and
// returns the action that uses their values. Next: options.cpp parses, help.cpp prints, run_program.cpp runs.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera {

struct Command;

/// The work of a command, run after its options were parsed. An error ends the program with status 1, or with
/// 128 + N after signal N.
using Action = std::function<Result<void>()>;

/// Declares one command's options. The values referred to live as long as the Action. `names` are spellings
/// such as "-n,--n-predict"; `form` stands for the value in the help text. If an option is given twice, the
/// last one counts. An invalid value ends the program with status 2 and a message that names the option.
class Options {
  public:
    using Parse = std::function<Result<void>(const std::string& text)>;

    struct Impl;
    explicit Options(Impl& impl) : impl_(impl) {}

    /// A positional argument named MODEL may also be given as -m FILE or --model FILE.
    void positional(const char* name, std::string& value, const char* help);
    void required(const char* name, std::string& value, const char* help);
    void positionals(const char* name, std::vector<std::string>& values, const char* help);
    void flag(const char* names, bool& value, const char* help);
    /// The help text shows the range and the value's current content as the default.
    void integer(const char* names, int64_t& value, int64_t min, int64_t max, const char* help);
    void text(const char* names, const char* form, std::string& value, const char* help);
    void parsed(const char* names, const std::string& form, Parse parse, const std::string& help);
    /// Like parsed(), but may be given several times, and each counts.
    void repeated(const char* names, const std::string& form, Parse parse, const std::string& help);

    /// Options declared from here on are listed under this title.
    void group(const char* title);
    /// Runs after all options are parsed; finds combinations that make no sense.
    void check(std::function<Result<void>()> check);
    /// Runs before the checks: where it returns true, `to` runs instead, with the same arguments.
    void hand_over(const Command& to, std::function<bool()> when);
    /// Whether an option or positional argument of this name was given; for check() and the Action.
    bool given(const char* name) const;

  private:
    Impl& impl_;
};

struct Command {
    const char* name;      ///< one word, or two for one of a family
    const char* summary;   ///< one line for the list of commands
    const char* help;      ///< a sentence or two on its purpose; lines are wrapped where they are printed
    const char* examples;  ///< lines, each with a command and its purpose
    Action (*declare)(Options& options);
    /// The options that --help shows, such as "--n-predict --temp"; --help-all shows the rest. Empty: all.
    const char* common = "";
};

/// Commands under a title of the program's help.
struct CommandGroup {
    const char* title;
    std::vector<const Command*> commands;
};

/// Parses the command line, runs the command, and returns the exit status: 0 success, 1 failure, 2 wrong
/// usage, 128 + N ended by signal N.
int run_program(int argc, char** argv, std::span<const CommandGroup> groups);

}  // namespace tessera
