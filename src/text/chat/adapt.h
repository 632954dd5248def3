#pragma once
// Changes a dialogue into the form that a template takes.
#include <optional>
#include <span>

#include "src/text/chat/template.h"

namespace tessera::chat {

/// The same dialogue for a template of these abilities: content as text or parts, arguments as objects or
/// text, ids of the right form, the system's words inside the first user message, tools, calls and results as
/// plain text where the template knows none of them (in the form of Hermes, which many models know). Appends
/// to `notes` what a reader of the prompt would wonder at. Errors: parts that are no text, where the template
/// takes text only.
Result<Dialogue> adapt(const Dialogue& dialogue, const Abilities& abilities, std::vector<std::string>& notes);

/// What is tried, one change on top of the other, when a template refuses a dialogue.
struct Repair {
    /// The same dialogue in another form, or nothing where there is nothing to change.
    std::optional<Dialogue> (*change)(const Dialogue& dialogue);
    const char* note;
};
std::span<const Repair> repairs();

}  // namespace tessera::chat
