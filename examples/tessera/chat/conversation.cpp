// The tree of messages and its file: JSON with one object per message. Parents come before their children, so
// a file that passes the checks is a tree. The commands that move in it are in branch_commands.cpp.
#include "examples/tessera/chat/conversation.h"

#include <algorithm>

#include "common/strings.h"
#include "examples/tessera/json.h"

namespace tessera::repl {

namespace {

constexpr const char* kFormat = "tessera-chat";
constexpr int kVersion = 1;
constexpr const char* kCutNames[] = {"", "length", "context", "interrupt"};

// Sorted members: a lookup among a million of them must not take a million steps.
using Parsed = nlohmann::json;

/// Lists and objects are shown by their kind alone: their nesting may exceed the stack.
tl::unexpected<Error> malformed(const std::string& place, const char* expected, const Parsed* found) {
    const std::string shown = found == nullptr         ? "none"
                              : found->is_structured() ? found->type_name()
                                                       : printable(found->dump());
    return fail(ErrorCode::Malformed, "%s: expected %s, found %s", place.c_str(), expected, shown.c_str());
}

const Parsed* find_member(const Parsed& object, const char* name) {
    const auto at = object.find(name);
    return at == object.end() ? nullptr : &*at;
}

/// An object whose members are all known, so that none is lost when it is written again.
Result<void> check_members(const Parsed& object, const std::string& place,
                           std::initializer_list<std::string_view> known) {
    if (!object.is_object()) return malformed(place, "an object", &object);
    for (const auto& [name, value] : object.items()) {
        if (std::find(known.begin(), known.end(), name) == known.end())
            return fail(ErrorCode::Malformed, "%s: unknown member '%s'", place.c_str(),
                        printable(name).c_str());
    }
    return {};
}

Result<std::string> text_member(const Parsed& object, const std::string& place, const char* name,
                                bool needed) {
    const Parsed* at = find_member(object, name);
    if (at == nullptr && !needed) return std::string();
    if (at == nullptr || !at->is_string()) return malformed(place + "." + name, "a text", at);
    return at->get<std::string>();
}

/// The number of a message below `n`, or -1.
Result<int> index_member(const Parsed& object, const std::string& place, const char* name, size_t n) {
    const Parsed* at = find_member(object, name);
    if (at != nullptr && at->is_number_unsigned() && at->get<uint64_t>() < n) return at->get<int>();
    if (at != nullptr && at->is_number_integer() && !at->is_number_unsigned() && at->get<int64_t>() == -1)
        return -1;
    return malformed(place + "." + name, "-1 or the number of an earlier message", at);
}

/// The calls in OpenAI's form, each with an id.
Result<std::vector<Call>> parse_calls(const Parsed& object, const std::string& place) {
    std::vector<Call> out;
    const Parsed* calls = find_member(object, "tool_calls");
    if (calls == nullptr) return out;
    if (!calls->is_array()) return malformed(place + ".tool_calls", "a list", calls);
    for (const Parsed& row : *calls) {
        const std::string at = strf("%s.tool_calls[%zu]", place.c_str(), out.size());
        TSR_TRY_VOID(check_members(row, at, {"id", "type", "function"}));
        Call call;
        TSR_TRY(call.id, text_member(row, at, "id", true));
        const Parsed* function = find_member(row, "function");
        if (function == nullptr) return malformed(at + ".function", "an object", function);
        TSR_TRY_VOID(check_members(*function, at + ".function", {"name", "arguments"}));
        TSR_TRY(call.name, text_member(*function, at + ".function", "name", true));
        TSR_TRY(call.arguments, text_member(*function, at + ".function", "arguments", true));
        out.push_back(std::move(call));
    }
    return out;
}

Result<Message> parse_message(const Parsed& object, const std::string& place, const Conversation& before) {
    TSR_TRY_VOID(check_members(
        object, place, {"parent", "role", "content", "time", "reasoning_content", "tool_calls", "cut"}));
    Message message;
    TSR_TRY(message.parent, index_member(object, place, "parent", before.messages().size()));
    TSR_TRY(const std::string role, text_member(object, place, "role", true));
    message.from_user = message.parent < 0 || !before.message(message.parent).from_user;
    message.is_result =
        role == "tool" && message.parent >= 0 && !before.message(message.parent).calls.empty();
    const char* expected = message.from_user ? "user" : "assistant";
    if (role != expected && !(message.from_user && message.is_result))
        return fail(ErrorCode::Malformed, "%s.role: expected \"%s\" after message %d, found \"%s\"",
                    place.c_str(), expected, message.parent, printable(role).c_str());
    TSR_TRY(message.content, text_member(object, place, "content", true));
    TSR_TRY(message.time, text_member(object, place, "time", false));
    TSR_TRY(message.calls, parse_calls(object, place));
    TSR_TRY(message.reasoning, text_member(object, place, "reasoning_content", false));
    TSR_TRY(const std::string cut, text_member(object, place, "cut", false));
    const auto name = std::find(std::begin(kCutNames), std::end(kCutNames), cut);
    if (name == std::end(kCutNames))
        return fail(ErrorCode::Malformed, "%s.cut: expected length, context or interrupt, found \"%s\"",
                    place.c_str(), printable(cut).c_str());
    message.cut = static_cast<Cut>(name - std::begin(kCutNames));
    const bool is_plain = message.reasoning.empty() && message.calls.empty() && message.time.empty() &&
                          message.cut == Cut::Whole;
    if (message.from_user && !is_plain)
        return fail(ErrorCode::Malformed, "%s: only answers have time, reasoning_content, tool_calls and cut",
                    place.c_str());
    return message;
}

Json message_json(const Message& message) {
    const char* role = message.is_result ? "tool" : message.from_user ? "user" : "assistant";
    Json out = {{"role", role}, {"content", message.content}};
    if (!message.reasoning.empty()) out["reasoning_content"] = message.reasoning;
    for (const Call& call : message.calls)
        out["tool_calls"].push_back({{"id", call.id},
                                     {"type", "function"},
                                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    return out;
}

}  // namespace

std::vector<int> Conversation::line_to(int last) const {
    std::vector<int> out;
    for (int i = last; i >= 0; i = message(i).parent) out.push_back(i);
    std::reverse(out.begin(), out.end());
    return out;
}

int Conversation::last_question() const {
    if (here_ < 0 || message(here_).from_user) return here_;
    return message(here_).parent;
}

void Conversation::add(Message message) {
    TSR_CHECK(message.from_user == (here_ < 0 || !this->message(here_).from_user));
    message.parent = here_;
    here_ = static_cast<int>(messages_.size());
    messages_.push_back(std::move(message));
}

void Conversation::drop_newest() {
    TSR_CHECK(!messages_.empty());
    if (here_ + 1 == static_cast<int>(messages_.size())) here_ = messages_.back().parent;
    messages_.pop_back();
}

std::vector<int> Conversation::ends() const {
    std::vector<bool> continued(messages_.size(), false);
    for (const Message& message : messages_)
        if (message.parent >= 0) continued[static_cast<size_t>(message.parent)] = true;
    std::vector<int> out;
    for (size_t i = 0; i < messages_.size(); i++)
        if (!continued[i] || static_cast<int>(i) == here_) out.push_back(static_cast<int>(i));
    return out;
}

std::vector<int> Conversation::successors(int parent) const {
    std::vector<int> out;
    for (size_t i = 0; i < messages_.size(); i++)
        if (messages_[i].parent == parent) out.push_back(static_cast<int>(i));
    return out;
}

std::string Conversation::to_json() const {
    Json out = {{"format", kFormat}, {"version", kVersion}, {"started", started}};
    if (!system.empty()) out["system"] = system;
    out["settings"] = Json::object();
    for (const auto& [name, value] : settings) out["settings"][name] = value;
    out["messages"] = Json::array();
    for (const Message& message : messages_) {
        Json row = {{"parent", message.parent}};
        row.update(message_json(message));
        if (!message.time.empty()) row["time"] = message.time;
        if (message.cut != Cut::Whole) row["cut"] = kCutNames[static_cast<size_t>(message.cut)];
        out["messages"].push_back(std::move(row));
    }
    out["here"] = here_;
    return out.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Conversation> Conversation::parse(std::string_view text) {
    const Parsed root = Parsed::parse(text, nullptr, false);
    if (root.is_discarded()) return fail(ErrorCode::Malformed, "expected a conversation in JSON");
    const std::string place = "conversation";
    TSR_TRY_VOID(check_members(root, place,
                               {"format", "version", "started", "system", "settings", "messages", "here"}));
    TSR_TRY(const std::string format, text_member(root, place, "format", true));
    if (format != kFormat)
        return fail(ErrorCode::Malformed, "format: expected \"%s\", found \"%s\"", kFormat,
                    printable(format).c_str());
    const Parsed* version = find_member(root, "version");
    if (version == nullptr || *version != kVersion) return malformed("version", "1", version);

    Conversation out;
    TSR_TRY(out.started, text_member(root, place, "started", true));
    TSR_TRY(out.system, text_member(root, place, "system", false));
    const Parsed* settings = find_member(root, "settings");
    if (settings == nullptr || !settings->is_object()) return malformed("settings", "an object", settings);
    for (const auto& [name, value] : settings->items()) {
        if (!value.is_string()) return malformed("settings." + printable(name), "a text", &value);
        out.settings[name] = value.get<std::string>();
    }
    const Parsed* messages = find_member(root, "messages");
    if (messages == nullptr || !messages->is_array()) return malformed("messages", "a list", messages);
    for (const Parsed& object : *messages) {
        const std::string row = strf("messages[%zu]", out.messages_.size());
        TSR_TRY(Message message, parse_message(object, row, out));
        out.messages_.push_back(std::move(message));
    }
    TSR_TRY(out.here_, index_member(root, place, "here", out.messages_.size()));
    for (const int end : out.ends()) {
        if (out.message(end).from_user)
            return fail(ErrorCode::Malformed,
                        "messages[%d]: a line ends here, so expected an answer, found a message of the user",
                        end);
    }
    return out;
}

std::string Conversation::dialogue() const {
    Json out = Json::array();
    if (!system.empty()) out.push_back({{"role", "system"}, {"content", system}});
    for (const int i : line()) {
        Json row = message_json(message(i));
        if (!message(i).is_result) {
            out.push_back(std::move(row));
            continue;
        }
        // One result for all calls of an answer: templates want one for each.
        for (const Call& call : message(message(i).parent).calls) {
            row["tool_call_id"] = call.id;
            out.push_back(row);
        }
    }
    return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tessera::repl
