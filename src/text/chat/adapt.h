#pragma once
// Changes a dialogue into the form that a template takes.
#include <optional>
#include <span>

#include "src/text/chat/template.h"

namespace tessera::chat {

/// The same dialogue for a template with these abilities: content as text or as parts, arguments as objects
/// or as text, ids in the required form, the system message inside the first user message, and tools, calls
/// and results as plain text if the template does not support them (in the Hermes format, which many models
/// know). Appends changes that are visible in the prompt to `notes`. Errors: parts other than text if the
/// template takes text only.
Result<Dialogue> adapt(const Dialogue& dialogue, const Abilities& abilities, std::vector<std::string>& notes);

/// Changes that are tried, one on top of the other, when a template refuses a dialogue.
struct Repair {
    /// The changed dialogue, or nothing if there is nothing to change.
    std::optional<Dialogue> (*change)(const Dialogue& dialogue);
    const char* note;
};
std::span<const Repair> repairs();

}  // namespace tessera::chat
