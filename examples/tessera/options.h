#pragma once
// Commands and their options. A command is a row of the table in main.cpp; its file declares the options and
// returns what is to be done with them. The library behind this, CLI11, is seen by options.cpp alone.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/expected.h"

namespace tessera {

/// What a command does once its options are read. An error ends the program with status 1.
using Action = std::function<Result<void>()>;

/// Declares one command's options. The values referred to live as long as the Action. `names` are spellings
/// such as "-n,--n-predict"; `form` stands for the value in the help text; of options given twice the last
/// one counts. Whatever a value breaks ends the program with status 2 and a message that names the option.
class Options {
  public:
    using Parse = std::function<Result<void>(const std::string& text)>;

    struct Impl;
    explicit Options(Impl& impl) : impl_(impl) {}

    void positional(const char* name, std::string& value, const char* help);
    void required(const char* name, std::string& value, const char* help);
    void positionals(const char* name, std::vector<std::string>& values, const char* help);
    void flag(const char* names, bool& value, const char* help);
    /// The default, shown in the help text, is the value's own.
    void integer(const char* names, int64_t& value, int64_t min, int64_t max, const char* help);
    void text(const char* names, const char* form, std::string& value, const char* help);
    void parsed(const char* names, const std::string& form, Parse parse, const std::string& help);
    /// Like parsed(), but may be given several times, and each counts.
    void repeated(const char* names, const std::string& form, Parse parse, const std::string& help);

    /// Options declared from here on are listed under this title.
    void group(const char* title);
    /// Runs after all options are read: finds combinations that make no sense.
    void check(std::function<Result<void>()> check);
    /// Whether an option of this spelling was given; for check() and the Action.
    bool given(const char* name) const;

  private:
    Impl& impl_;
};

struct Command {
    const char* name;      ///< one word, or two for one of a family
    const char* summary;   ///< one line for the list of commands
    const char* help;      ///< what it does, in a sentence or two
    const char* examples;  ///< lines, each a command and what it shows
    Action (*declare)(Options& options);
};

/// Reads the command line, runs the command, and returns the exit status: 0 fine, 1 failed, 2 wrong usage.
int run_program(int argc, char** argv, std::span<const Command* const> commands);

}  // namespace tessera
