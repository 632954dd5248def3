#pragma once
// The declared options of one command and the state of parsing them; shared by options.cpp, which fills it,
// and help.cpp, which prints it.
#include <deque>
#include <string_view>
#include <utility>

#include "examples/tessera/options.h"

namespace tessera {

struct Options::Impl {
    struct Option {
        std::vector<std::string> names;  ///< "-n", "--n-predict"; of a positional argument one word
        std::string form;                ///< of the value; empty: a flag
        std::string group, help;
        std::function<Result<void>(const std::string&)> take;
        bool repeats = false, required = false;
        std::vector<std::string> values;  ///< as given on the command line

        bool is_positional() const { return !names.front().starts_with('-'); }
        /// "--n-predict", the name that messages begin with.
        const std::string& long_name() const { return names.back(); }
        /// "-n/--n-predict".
        std::string all_names() const;
    };

    explicit Impl(const Command& of) : command(of) {}

    /// Parses the arguments behind the command's name. Errors: wrong usage, to be shown to the user.
    Result<void> parse(std::span<char* const> arguments);
    Option& add(const char* names, const std::string& form, const std::string& help, Options::Parse take);
    /// Null when there is none of this name.
    Option* find(std::string_view name);
    const Option* find(std::string_view name) const { return const_cast<Impl*>(this)->find(name); }

    /// Set by parse(); the other results then mean nothing.
    bool wants_help = false, wants_all_help = false;

    const Command& command;
    std::deque<Option> options;
    std::string group = "Options";
    std::vector<std::function<Result<void>()>> checks;
    const Command* successor = nullptr;
    std::function<bool()> hands_over;

  private:
    class Scan;
    /// Hands the values to the options. Errors: wrong values, missing and superfluous arguments.
    Result<void> take_values(const Scan& scan);
};

}  // namespace tessera
