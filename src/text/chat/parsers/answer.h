#pragma once
// The content of a model's answer, independent of its format.
#include <string>
#include <vector>

namespace tessera::chat {

struct ToolCall {
    std::string id;  ///< as the model gave it; most formats have none
    std::string name;
    std::string arguments;  ///< a JSON object

    bool operator==(const ToolCall&) const = default;
};

struct Answer {
    std::string content, reasoning;
    std::vector<ToolCall> calls;
    /// Parts that could not be parsed and remain in the content, with the reason. For people, not for
    /// programs.
    std::vector<std::string> notes;

    bool operator==(const Answer&) const = default;
};

}  // namespace tessera::chat
