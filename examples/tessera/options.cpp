// The only file that knows CLI11, and the one place where errors become messages and exit statuses. Assumes
// that commands report through Result; what a library throws all the same ends here.
#include "examples/tessera/options.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include <CLI/CLI.hpp>

#include "common/strings.h"
#include "examples/tessera/console.h"

namespace tessera {

struct Options::Impl {
    struct Row {
        std::string group, left, help;
        bool required = false;
    };

    explicit Impl(const Command& command) : app(command.help, std::string("tessera ") + command.name) {}

    /// Sets up what CLI11 made of an option, and remembers its line of the help text.
    CLI::Option& place(CLI::Option* option, const std::string& names, const std::string& form,
                       const std::string& help) {
        // Two columns for the short name keep the long ones below each other.
        std::string left = names.starts_with("--") ? "    " + names : names;
        if (const size_t comma = left.find(','); comma != std::string::npos) left.insert(comma + 1, " ");
        if (!form.empty()) left += " " + form;
        rows.push_back({group, left, help});
        return *option;
    }

    void place_positional(CLI::Option* option, const std::string& name, const std::string& help) {
        rows.push_back({"", name, help, option->get_required()});
    }

    CLI::App app;
    std::string group = "Options";
    std::vector<Row> rows;
    std::vector<std::function<Result<void>()>> checks;
};

namespace {

constexpr int kExitFine = 0, kExitFailed = 1, kExitUsage = 2;

/// CLI11 reports through exceptions; ValidationError puts the option's name in front of the message.
void parse_or_throw(const Options::Parse& parse, const std::string& names, const std::string& text) {
    auto parsed = parse(text);
    if (!parsed) throw CLI::ValidationError(names.substr(names.rfind(',') + 1), parsed.error().message);
}

}  // namespace

void Options::positional(const char* name, std::string& value, const char* help) {
    impl_.place_positional(impl_.app.add_option(name, value), name, help);
}

void Options::required(const char* name, std::string& value, const char* help) {
    impl_.place_positional(impl_.app.add_option(name, value)->required(), name, help);
}

void Options::positionals(const char* name, std::vector<std::string>& values, const char* help) {
    impl_.place_positional(impl_.app.add_option(name, values), name, help);
}

void Options::flag(const char* names, bool& value, const char* help) {
    impl_.place(impl_.app.add_flag(names, value), names, "", help)
        .multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void Options::integer(const char* names, int64_t& value, int64_t min, int64_t max, const char* help) {
    const auto read = [&value, min, max](const std::string& text) -> Result<void> {
        const std::optional<int64_t> number = parse_int(text);
        if (!number || *number < min || *number > max)
            return fail(ErrorCode::InvalidArgument, "expected a whole number from %lld to %lld, found '%s'",
                        static_cast<long long>(min), static_cast<long long>(max), printable(text).c_str());
        value = *number;
        return {};
    };
    parsed(names, "N", read, help + strf(" (default: %lld)", static_cast<long long>(value)));
}

void Options::text(const char* names, const char* form, std::string& value, const char* help) {
    impl_.place(impl_.app.add_option(names, value), names, form, help).take_last();
}

void Options::parsed(const char* names, const std::string& form, Parse parse, const std::string& help) {
    const std::function<void(const std::string&)> read =
        [parse = std::move(parse), names = std::string(names)](const std::string& text) {
            parse_or_throw(parse, names, text);
        };
    impl_.place(impl_.app.add_option_function(names, read), names, form, help).take_last();
}

void Options::repeated(const char* names, const std::string& form, Parse parse, const std::string& help) {
    const std::function<void(const std::vector<std::string>&)> read =
        [parse = std::move(parse), names = std::string(names)](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) parse_or_throw(parse, names, text);
        };
    impl_.place(impl_.app.add_option_function(names, read), names, form, help).allow_extra_args(false);
}

void Options::group(const char* title) { impl_.group = title; }

void Options::check(std::function<Result<void>()> check) { impl_.checks.push_back(std::move(check)); }

bool Options::given(const char* name) const { return impl_.app.count(name) > 0; }

namespace {

std::string program_help(std::span<const Command* const> commands) {
    std::string text =
        "tessera runs language models (GGUF files) on the processor of this machine.\n\n"
        "Usage: tessera COMMAND [OPTIONS]\n\nCommands:\n";
    for (const Command* command : commands) text += strf("  %-12s %s\n", command->name, command->summary);
    text +=
        "\nOptions:\n"
        "  -h, --help   this text; `tessera COMMAND --help` tells of one command\n"
        "  --version    the version of this program\n\n"
        "Where MODEL is left out, the environment variable TESSERA_MODEL names it, or else the small model\n"
        "that comes with the program is used. TESSERA_ISA=scalar, say, forces an instruction set.\n\n"
        "Example:\n  tessera run -p \"Once upon a time\" -n 60\n";
    return text;
}

/// Of the commands of one family, "npu" of "npu devices".
std::string family_help(const std::string& family, std::span<const Command* const> commands) {
    std::string text = strf("Usage: tessera %s COMMAND [OPTIONS]\n\nCommands:\n", family.c_str());
    for (const Command* command : commands)
        if (std::string_view(command->name).starts_with(family + " "))
            text += strf("  %-14s %s\n", command->name, command->summary);
    return text + strf("\n`tessera %s COMMAND --help` tells of one command.\n", family.c_str());
}

int report(const Result<void>& result) {
    if (result || console::stdout_gone()) return kExitFine;
    std::fprintf(stderr, "tessera: %s\n", result.error().message.c_str());
    return kExitFailed;
}

int usage_error(const Command& command, const std::string& message) {
    std::fprintf(stderr, "tessera %s: %s\nRun 'tessera %s --help' for its options.\n", command.name,
                 message.c_str(), command.name);
    return kExitUsage;
}

/// "; did you mean --temp?" for the first argument that looks like an option and is none.
std::string spelling_hint(const CLI::App& app, std::span<char* const> arguments) {
    std::vector<std::string> known;
    for (const CLI::Option* option : app.get_options())
        for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    const std::vector<std::string_view> views(known.begin(), known.end());
    for (const char* argument : arguments) {
        const std::string_view name =
            std::string_view(argument).substr(0, std::string_view(argument).find('='));
        if (!name.starts_with("--") || std::find(views.begin(), views.end(), name) != views.end()) continue;
        const std::string_view nearest = nearest_name(name, views);
        if (!nearest.empty()) return "; did you mean " + std::string(nearest) + "?";
    }
    return "";
}

/// Words of `help` in lines that stand to the right of `left`.
std::string help_row(const std::string& left, const std::string& help) {
    constexpr size_t kLeft = 34, kWidth = 100;
    std::string out = "  " + left;
    size_t column = out.size();
    const auto indent = [&] {
        out += "\n" + std::string(kLeft, ' ');
        column = kLeft;
    };
    if (column + 2 > kLeft) indent();
    out += std::string(kLeft - column, ' ');
    column = kLeft;
    for (const std::string_view word : split(help, ' ')) {
        if (column > kLeft && column + 1 + word.size() > kWidth) indent();
        const std::string piece = (column > kLeft ? " " : "") + std::string(word);
        out += piece;
        column += piece.size();
    }
    return out + "\n";
}

std::string command_help(const Command& command, const Options::Impl& impl) {
    std::string usage = strf("Usage: tessera %s [OPTIONS]", command.name), arguments, options, group;
    for (const Options::Impl::Row& row : impl.rows) {
        if (row.group.empty()) {
            usage += row.required ? " " + row.left : " [" + row.left + "]";
            arguments += help_row(row.left, row.help);
            continue;
        }
        if (row.group != group) options += "\n" + row.group + ":\n";
        group = row.group;
        options += help_row(row.left, row.help);
    }
    if (!arguments.empty()) arguments = "\nArguments:\n" + arguments;
    return std::string(command.help) + "\n\n" + usage + "\n" + arguments + options + "\nExamples:\n" +
           command.examples;
}

int run_command(const Command& command, int argc, char** argv) {
    Options::Impl impl(command);
    Options options(impl);
    bool quiet = false, verbose = false;
    const Action action = command.declare(options);
    options.group("General");
    options.flag("--quiet", quiet, "No notes and warnings on standard error, errors only.");
    options.flag("--verbose", verbose, "Tell what is being done, on standard error.");
    impl.place(impl.app.set_help_flag("-h,--help"), "-h,--help", "", "This text.");
    try {
        impl.app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        return report(console::print(command_help(command, impl)));
    } catch (const CLI::ExtrasError& error) {
        const std::span arguments(argv + 1, static_cast<size_t>(argc - 1));
        return usage_error(command, error.what() + spelling_hint(impl.app, arguments));
    } catch (const CLI::Error& error) {
        return usage_error(command, error.what());
    }
    console::set_verbosity(quiet     ? console::Verbosity::Quiet
                           : verbose ? console::Verbosity::Verbose
                                     : console::Verbosity::Normal);
    for (const auto& check : impl.checks)
        if (auto checked = check(); !checked) return usage_error(command, checked.error().message);
    return report(action());
}

}  // namespace

int run_program(int argc, char** argv, std::span<const Command* const> commands) {
    console::prepare();
    if (argc < 2) {
        std::fputs(program_help(commands).c_str(), stderr);
        return kExitUsage;
    }
    std::string name = argv[1];
    if (name == "-h" || name == "--help" || name == "help")
        return report(console::print(program_help(commands)));
    if (name == "--version") return report(console::print("tessera " TSR_VERSION "\n"));
    // A command's name may be two words, as in `tessera npu devices`.
    std::string family;
    for (const Command* command : commands)
        if (std::string_view(command->name).starts_with(name + " "))
            family += (family.empty() ? "" : ", ") + std::string(command->name);
    const int n_words = !family.empty() && argc > 2 ? 2 : 1;
    if (n_words == 2) name += std::string(" ") + argv[2];
    if (n_words == 2 && (name.ends_with(" -h") || name.ends_with(" --help")))
        return report(console::print(family_help(argv[1], commands)));
    std::vector<std::string_view> names;
    for (const Command* command : commands) {
        names.push_back(command->name);
        if (name != command->name) continue;
        try {
            return run_command(*command, argc - n_words, argv + n_words);
        } catch (const std::bad_alloc&) {
            return report(fail(ErrorCode::OutOfMemory, "the system has no more memory"));
        } catch (const std::exception& error) {
            return report(fail(ErrorCode::Internal, "unexpected failure: %s", error.what()));
        }
    }
    const std::string_view nearest = nearest_name(name, names);
    std::string hint = nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?";
    if (!family.empty()) hint = "; expected " + family;
    std::fprintf(stderr, "tessera: unknown command '%s'%s\nRun 'tessera --help' for the commands.\n",
                 printable(name).c_str(), hint.c_str());
    return kExitUsage;
}

}  // namespace tessera
