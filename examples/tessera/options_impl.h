#pragma once
// The declared options of one command; shared by options.cpp, which declares and parses them, spellings.cpp,
// which rewrites the command line before, and help.cpp, which prints them.
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "examples/tessera/options.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tessera {

struct Options::Impl {
    struct Option {
        std::vector<std::string> names;  ///< "-n", "--n-predict"; of a positional argument one word
        std::string form;                ///< of the value; empty: a flag
        std::string group, help;
        bool repeats = false, required = false;
        CLI::Option* parsed = nullptr;  ///< owned by the App

        bool is_positional() const { return !names.front().starts_with('-'); }
        /// "--n-predict", the name that messages begin with.
        const std::string& long_name() const { return names.back(); }
        /// "-n/--n-predict".
        std::string all_names() const;
    };

    explicit Impl(const Command& of);
    ~Impl();

    /// Parses the arguments behind the command's name. Errors: wrong usage, to be shown to the user.
    Result<void> parse(std::span<char* const> arguments);
    /// An option whose values are handed to `take`: the last one, or all if it repeats.
    Option& add(const char* names, const std::string& form, const std::string& help, Options::Parse take,
                bool repeats = false, bool required = false);
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
    std::unique_ptr<CLI::App> app_;
    std::optional<Error> rejected_;  ///< by the parser of an option's value
};

/// The command line with every option under its long name and its value, if it has one, behind it, then "--"
/// and the positional arguments. Sets wants_help and wants_all_help, and ends early for them. Errors: an
/// unknown option, or else the first missing or superfluous value.
Result<std::vector<std::string>> canonical_arguments(Options::Impl& impl, std::span<char* const> arguments);

}  // namespace tessera
