// Two columns of options and help, wrapped; the same as Markdown, from which docs/reference/cli.md is made.
#include "examples/tessera/help.h"

#include <algorithm>

#include "common/strings.h"

namespace tessera {

namespace {

constexpr size_t kHelpWidth = 100;
constexpr size_t kOptionColumn = 34, kCommandColumn = 19;  // where the right column begins

/// Words of `help` in lines to the right of `left`.
std::string help_row(const std::string& left, std::string_view help, size_t right) {
    std::string out = "  " + left;
    size_t column = out.size();
    const auto next_line = [&] {
        out += "\n" + std::string(right, ' ');
        column = right;
    };
    if (column + 2 > right) next_line();
    out += std::string(right - column, ' ');
    column = right;
    for (const std::string_view word : split(help, ' ')) {
        if (column > right && column + 1 + word.size() > kHelpWidth) next_line();
        const std::string piece = (column > right ? " " : "") + std::string(word);
        out += piece;
        column += piece.size();
    }
    return out + "\n";
}

/// Wraps paragraphs, which are separated by empty lines; indented lines are kept.
std::string wrap(std::string_view text) {
    std::string out, line;
    const auto end_line = [&] {
        if (!line.empty()) out += line + "\n";
        line.clear();
    };
    for (const std::string_view source : split(text, '\n')) {
        if (source.empty() || source.starts_with(' ')) {
            end_line();
            out += std::string(source) + "\n";
            continue;
        }
        for (const std::string_view word : split(source, ' ')) {
            if (!line.empty() && line.size() + 1 + word.size() > kHelpWidth) end_line();
            line += (line.empty() ? "" : " ") + std::string(word);
        }
    }
    end_line();
    return out;
}

std::string joined_names(const Options::Impl::Option& option) {
    std::string out;
    for (const std::string& name : option.names) out += (out.empty() ? "" : ", ") + name;
    return option.form.empty() || option.is_positional() ? out : out + " " + option.form;
}

std::string left_column(const Options::Impl::Option& option) {
    // Two columns for the short name keep the long ones below each other.
    return (option.names.front().starts_with("--") ? "    " : "") + joined_names(option);
}

bool is_common(const Options::Impl& impl, const Options::Impl::Option& option) {
    const auto listed = split(impl.command.common, ' ');
    return std::find(listed.begin(), listed.end(), option.long_name()) != listed.end();
}

}  // namespace

std::string program_help(std::span<const CommandGroup> groups) {
    std::string text =
        "tessera runs large language models (GGUF files) on the CPU.\n\n"
        "Usage: tessera COMMAND [OPTIONS]\n";
    for (const CommandGroup& group : groups) {
        text += strf("\n%s:\n", group.title);
        for (const Command* command : group.commands)
            text += help_row(command->name, command->summary, kCommandColumn);
    }
    text += "\nOptions:\n" + help_row("-h, --help", "Show this text.", kCommandColumn) +
            help_row("-V, --version", "Show the program's version.", kCommandColumn) + "\nEnvironment:\n" +
            help_row("TESSERA_MODEL", "The model of commands without MODEL; else the bundled demo model.",
                     kCommandColumn) +
            help_row("TESSERA_ISA", "Use this instruction set (tessera info lists them), such as scalar.",
                     kCommandColumn) +
            help_row("TESSERA_API_KEY", "Keys of tessera serve, one per line.", kCommandColumn) +
            "\nExit status:\n" + help_row("0", "Success.", kCommandColumn) +
            help_row("1", "Failure; a message on standard error says why.", kCommandColumn) +
            help_row("2", "Wrong usage.", kCommandColumn) +
            help_row("128 + N", "Ended by signal N: 130 by Ctrl-C.", kCommandColumn) +
            "\nExamples:\n"
            "  tessera run model.gguf \"Once upon a time\" -n 60\n"
            "  tessera chat model.gguf\n"
            "  tessera help run                  the options of one command\n";
    return text;
}

std::string family_help(const std::string& family, std::span<const CommandGroup> groups) {
    std::string text = strf("Usage: tessera %s COMMAND [OPTIONS]\n\nCommands:\n", family.c_str());
    for (const CommandGroup& group : groups)
        for (const Command* command : group.commands)
            if (std::string_view(command->name).starts_with(family + " "))
                text += help_row(command->name, command->summary, kCommandColumn);
    return text + strf("\n`tessera help %s COMMAND` shows the options of one command.\n", family.c_str());
}

std::string usage_line(const Options::Impl& impl) {
    std::string usage = strf("Usage: tessera %s [OPTIONS]", impl.command.name);
    for (const Options::Impl::Option& option : impl.options)
        if (option.is_positional()) {
            const std::string name = option.names.front() + (option.repeats ? "..." : "");
            usage += option.required ? " " + name : " [" + name + "]";
        }
    return usage + "\n";
}

std::string command_help(const Options::Impl& impl, bool all) {
    all = all || !*impl.command.common;
    std::string arguments, options, group;
    size_t n_hidden = 0;
    for (const Options::Impl::Option& option : impl.options) {
        if (option.is_positional()) {
            arguments += help_row(option.names.front(), option.help, kOptionColumn);
            continue;
        }
        if (!all && !is_common(impl, option)) {
            n_hidden++;
            continue;
        }
        const std::string& title = all ? option.group : "Options";
        if (title != group) options += "\n" + title + ":\n";
        group = title;
        options += help_row(left_column(option), option.help, kOptionColumn);
    }
    if (!arguments.empty()) arguments = "\nArguments:\n" + arguments;
    if (n_hidden > 0)
        options += strf("\n%zu more options: tessera %s --help-all\n", n_hidden, impl.command.name);
    return wrap(impl.command.help) + "\n" + usage_line(impl) + arguments + options + "\nExamples:\n" +
           impl.command.examples;
}

std::string command_markdown(const Options::Impl& impl) {
    const auto cell = [](const std::string& text) {
        std::string out;
        for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
        return out;
    };
    std::string out = strf("## tessera %s\n\n", impl.command.name), group;
    out += wrap(impl.command.help) + "\n```\n" + usage_line(impl).substr(sizeof("Usage: ") - 1) + "```\n";
    for (const Options::Impl::Option& option : impl.options) {
        const std::string& title = option.is_positional() ? "Arguments" : option.group;
        if (title != group)
            out += "\n**" + title + "**\n\n| " + (option.is_positional() ? "Argument" : "Option") +
                   " | Meaning |\n| --- | --- |\n";
        group = title;
        out += "| `" + cell(joined_names(option)) + "` | " + cell(option.help) + " |\n";
    }
    return out + "\nExamples:\n\n```\n" + impl.command.examples + "```\n";
}

}  // namespace tessera
