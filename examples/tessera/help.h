#pragma once
// The help texts, made of the commands' tables. Lines are at most 100 columns wide on every terminal.
#include <span>
#include <string>

#include "examples/tessera/options.h"
#include "examples/tessera/options_impl.h"

namespace tessera {

/// The list of commands; of one family ("npu") if that is given.
std::string program_help(std::span<const CommandGroup> groups);
std::string family_help(const std::string& family, std::span<const CommandGroup> groups);

/// `impl`: with the command's options declared. `all`: also the options that are not in Command::common.
std::string command_help(const Options::Impl& impl, bool all);

/// "Usage: tessera run [OPTIONS] [MODEL] [PROMPT]".
std::string usage_line(const Options::Impl& impl);

/// A section of a Markdown document: purpose, usage, a table of all options, examples.
std::string command_markdown(const Options::Impl& impl);

}  // namespace tessera
