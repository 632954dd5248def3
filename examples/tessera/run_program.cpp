// From the command line to the exit status: finds the command, prints help and versions, and turns errors
// into messages, each of which begins with "tessera COMMAND:". Assumes that commands report through Result;
// an exception that a library throws all the same ends here.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <system_error>

#include "common/strings.h"
#include "examples/tessera/console.h"
#include "examples/tessera/foreign_options.h"
#include "examples/tessera/help.h"
#include "examples/tessera/options.h"
#include "examples/tessera/options_impl.h"

namespace tessera {

namespace {

constexpr int kSuccess = 0, kFailure = 1, kUsage = 2, kSignal = 128;  // kSignal + N: ended by signal N

using Groups = std::span<const CommandGroup>;
using Arguments = std::span<char* const>;

/// Those of `tessera COMMAND`, all of them with every command.
struct Verbosity {
    bool quiet = false, verbose = false;
};

int report(const std::string& name, const Result<void>& result) {
    if (result || console::stdout_gone()) return kSuccess;
    std::fprintf(stderr, "tessera%s: %s\n", name.c_str(), result.error().message.c_str());
    const int signal = console::InterruptGuard::signal();
    return result.error().code == ErrorCode::Cancelled && signal > 0 ? kSignal + signal : kFailure;
}

int usage_error(const Options::Impl& impl, const std::string& message) {
    std::fprintf(stderr, "tessera %s: %s\n%sRun 'tessera %s --help' for its options.\n", impl.command.name,
                 message.c_str(), usage_line(impl).c_str(), impl.command.name);
    return kUsage;
}

Action declare(Options::Impl& impl, Verbosity& verbosity) {
    Options options(impl);
    Action action = impl.command.declare(options);
    options.group("General");
    options.flag("--quiet", verbosity.quiet, "Print errors only, no notes and warnings, on standard error.");
    options.flag("--verbose", verbosity.verbose, "Print each step on standard error.");
    static bool unused = false;  // help is printed before values are taken
    options.flag("-h,--help", unused, "Show the help.");
    if (*impl.command.common) options.flag("--help-all", unused, "Show all options.");
    return action;
}

int run_command(const Command& command, Arguments arguments, const char* came_from = nullptr) {
    Options::Impl impl(command);
    Verbosity verbosity;
    const Action action = declare(impl, verbosity);
    const auto refuse = [&](const Error& error) {
        return usage_error(impl, came_from ? error.message + came_from : error.message);
    };
    const auto parsed = impl.parse(arguments);
    if (impl.wants_help || impl.wants_all_help)
        return report("", console::print(command_help(impl, impl.wants_all_help)));
    if (!parsed) return refuse(parsed.error());
    if (impl.hands_over && impl.hands_over())
        return run_command(*impl.successor, arguments, " (`tessera run` without a prompt is a chat)");
    console::set_verbosity(verbosity.quiet     ? console::Verbosity::Quiet
                           : verbosity.verbose ? console::Verbosity::Verbose
                                               : console::Verbosity::Normal);
    for (const auto& check : impl.checks)
        if (const auto checked = check(); !checked) return refuse(checked.error());
    console::end_on_interrupt(command.name);
    return report(std::string(" ") + command.name, action());
}

int run_safely(const Command& command, Arguments arguments) {
    const std::string name = std::string(" ") + command.name;
    try {
        return run_command(command, arguments);
    } catch (const std::bad_alloc&) {
        return report(name, fail(ErrorCode::OutOfMemory, "the system has no more memory"));
    } catch (const std::exception& error) {
        return report(name, fail(ErrorCode::Internal, "unexpected failure: %s", error.what()));
    }
}

const Command* find_command(Groups groups, std::string_view name) {
    for (const CommandGroup& group : groups)
        for (const Command* command : group.commands)
            if (name == command->name) return command;
    return nullptr;
}

bool is_family(Groups groups, const std::string& word) {
    for (const CommandGroup& group : groups)
        for (const Command* command : group.commands)
            if (std::string_view(command->name).starts_with(word + " ")) return true;
    return false;
}

/// The first argument as a command's name, or the first two: "npu devices".
std::string name_of_command(Groups groups, Arguments arguments) {
    std::string name = arguments.empty() ? "" : arguments[0];
    if (arguments.size() > 1 && is_family(groups, name)) name += std::string(" ") + arguments[1];
    return name;
}

int unknown_command(Groups groups, const std::string& name) {
    std::vector<std::string_view> names;
    std::string members;
    const std::string family = name.substr(0, name.find(' '));
    for (const CommandGroup& group : groups)
        for (const Command* command : group.commands) {
            names.emplace_back(command->name);
            if (std::string_view(command->name).starts_with(family + " "))
                members += (members.empty() ? "" : ", ") + std::string(command->name);
        }
    std::string hint = foreign_command_hint(name);
    std::error_code ignored;
    if (const std::string_view nearest = nearest_name(name, names); hint.empty() && !nearest.empty())
        hint = "; did you mean '" + std::string(nearest) + "'?";
    if (hint.empty() && std::filesystem::is_regular_file(name, ignored))
        hint = "; did you mean 'tessera run " + printable(name, 400) + "'?";
    if (!members.empty()) hint = "; expected " + members;
    const bool is_option = name.starts_with('-');
    if (is_option) hint = "; options stand behind a command: tessera run MODEL \"PROMPT\" [OPTIONS]";
    std::fprintf(stderr, "tessera: unknown %s '%s'%s\nRun 'tessera --help' for the commands.\n",
                 is_option ? "option" : "command", printable(name).c_str(), hint.c_str());
    return kUsage;
}

/// Every command's help, one after the other.
std::string all_help(Groups groups, bool markdown) {
    std::string out = markdown ? "" : program_help(groups);
    for (const CommandGroup& group : groups) {
        if (markdown) out += strf("%s# %s\n\n", out.empty() ? "" : "\n", group.title);
        for (const Command* command : group.commands) {
            Options::Impl impl(*command);
            Verbosity verbosity;
            const Action action = declare(impl, verbosity);
            const bool first = command == group.commands.front();
            out += markdown ? (first ? "" : "\n") + command_markdown(impl)
                            : strf("\n\ntessera %s\n\n", command->name) + command_help(impl, true);
        }
    }
    return out;
}

/// `tessera help`, `tessera help COMMAND`, `tessera help --all` and `tessera help --markdown`.
int show_help(Groups groups, Arguments arguments) {
    if (arguments.empty()) return report("", console::print(program_help(groups)));
    const std::string first = arguments[0];
    if (first == "--all" || first == "--markdown")
        return report("", console::print(all_help(groups, first == "--markdown")));
    const std::string name = name_of_command(groups, arguments);
    if (is_family(groups, name)) return report("", console::print(family_help(name, groups)));
    const Command* command = find_command(groups, name);
    if (!command) return unknown_command(groups, name);
    Options::Impl impl(*command);
    Verbosity verbosity;
    const Action action = declare(impl, verbosity);
    return report("", console::print(command_help(impl, true)));
}

}  // namespace

int run_program(int argc, char** argv, Groups groups) {
    console::prepare();
    const Arguments arguments(argv + 1, static_cast<size_t>(std::max(argc, 1) - 1));
    if (arguments.empty()) {
        std::fputs(program_help(groups).c_str(), stderr);
        return kUsage;
    }
    const std::string first = arguments[0];
    if (first == "-h" || first == "--help") return show_help(groups, {});
    if (first == "--help-all") return report("", console::print(all_help(groups, false)));
    if (first == "help") return show_help(groups, arguments.subspan(1));
    if (first == "-V" || first == "--version" || first == "version")
        return report("", console::print("tessera " TSR_VERSION "\n"));
    const std::string name = name_of_command(groups, arguments);
    if (const Command* command = find_command(groups, name))
        return run_safely(*command, arguments.subspan(name == first ? 1 : 2));
    if (is_family(groups, first) && (name.ends_with(" -h") || name.ends_with(" --help")))
        return show_help(groups, arguments.first(1));
    return unknown_command(groups, name);
}

}  // namespace tessera
