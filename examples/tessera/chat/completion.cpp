// Candidates for the line up to the cursor: commands' names, or an argument's by the command's own function,
// with offsets from the argument's beginning. complete() makes them offsets in the line.
#include "examples/tessera/chat/completion.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "common/strings.h"

namespace tessera::repl {

namespace {

Completions shifted(Completions found, size_t by) {
    found.begin += by;
    return found;
}

}  // namespace

std::string expanded_path(std::string_view path) {
    const char* home = std::getenv("HOME");
    if (path.starts_with("~/") && home) return home + std::string(path.substr(1));
    return std::string(path);
}

Completions matching(const std::vector<std::string>& texts, std::string_view typed) {
    Completions out;
    for (const std::string& text : texts)
        if (text.starts_with(typed)) out.texts.push_back(text);
    std::sort(out.texts.begin(), out.texts.end());
    return out;
}

Completions complete_branch(const Repl& repl, std::string_view typed) {
    std::vector<std::string> numbers;
    for (size_t i = 0; i < repl.conversation.ends().size(); i++) numbers.push_back(std::to_string(i + 1));
    return matching(numbers, typed);
}

/// Files of the folder that was typed; a folder ends with "/". Names that could not be typed are left out.
Completions complete_file(const Repl&, std::string_view typed) {
    namespace fs = std::filesystem;
    const size_t slash = typed.rfind('/');
    const std::string folder(typed.substr(0, slash == std::string_view::npos ? 0 : slash + 1));
    const std::string_view name = typed.substr(folder.size());
    Completions out;
    std::error_code error;
    const std::string opened = folder.empty() ? "." : expanded_path(folder);
    for (fs::directory_iterator at(opened, error), end; !error && at != end; at.increment(error)) {
        const std::string found = at->path().filename().string();
        if (!found.starts_with(name) || (name.empty() && found.starts_with('.'))) continue;
        if (printable(found, found.size()) != found) continue;
        std::error_code ignored;
        out.texts.push_back(folder + found + (at->is_directory(ignored) ? "/" : ""));
    }
    std::sort(out.texts.begin(), out.texts.end());
    return out;
}

Completions complete_format(const Repl& repl, std::string_view typed) {
    const size_t at = typed.find('@');
    if (at != std::string_view::npos) return shifted(complete_file(repl, typed.substr(at + 1)), at + 1);
    return matching(Settings::values("format"), typed);
}

Completions complete_setting(const Repl& repl, std::string_view typed) {
    const size_t space = typed.find(' ');
    if (space == std::string_view::npos) return matching(Settings::names(), typed);
    const std::string_view name = typed.substr(0, space), value = typed.substr(space + 1);
    if (name == "format") return shifted(complete_format(repl, value), space + 1);
    std::vector<std::string> values = Settings::values(name);
    if (!values.empty()) values.emplace_back("default");
    return shifted(matching(values, value), space + 1);
}

Completions complete(const Repl& repl, std::string_view line) {
    if (!line.starts_with('/')) return {};
    const size_t space = line.find(' ');
    if (space == std::string_view::npos) {
        std::vector<std::string> names;
        for (const ChatCommand& command : chat_commands()) names.emplace_back(command.name);
        const Completions found = matching(names, line);
        if (!found.texts.empty()) return found;
        const std::vector<std::string_view> all = command_names();
        return matching({all.begin(), all.end()}, line);
    }
    const ChatCommand* command = find_command(line.substr(0, space));
    const size_t begin = std::min(line.find_first_not_of(' ', space), line.size());
    if (!command || !command->complete) return {};
    return shifted(command->complete(repl, line.substr(begin)), begin);
}

}  // namespace tessera::repl
