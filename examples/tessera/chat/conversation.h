#pragma once
// A conversation: a tree of messages with a current line through it, and its form in a file.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::repl {

/// Why an answer has no more text; Whole where the model ended it.
enum class Cut { Whole, Length, Context, Interrupt };

/// A call of a tool, made by the model.
struct Call {
    std::string id, name;
    std::string arguments;  ///< a JSON object

    bool operator==(const Call&) const = default;
};

struct Message {
    int parent = -1;  ///< index of the message before it; -1: it begins a line
    bool from_user = true;
    bool is_result = false;  ///< from the user: what the calls of the answer before it returned
    std::string content;
    std::string time;         ///< of answers, "2026-08-22T10:20:30"; empty: unknown
    std::string reasoning;    ///< of answers
    std::vector<Call> calls;  ///< of answers
    Cut cut = Cut::Whole;     ///< of answers

    bool operator==(const Message&) const = default;
};

/// Messages of the user alternate with answers; between turns each line ends with an answer. No message is
/// ever removed: another message after an earlier answer begins another branch. Texts are UTF-8. A value; one
/// thread at a time.
class Conversation {
  public:
    std::string system;   ///< the system prompt; empty: none
    std::string started;  ///< "2026-08-22T10:20:30": templates that print a date print this one
    std::map<std::string, std::string> settings;  ///< those that differ from the defaults

    const std::vector<Message>& messages() const { return messages_; }
    const Message& message(int index) const { return messages_[static_cast<size_t>(index)]; }

    /// Last message of the current line; -1: the line is empty.
    int here() const { return here_; }
    /// Indices of the current line, the first message first.
    std::vector<int> line() const { return line_to(here_); }
    std::vector<int> line_to(int last) const;
    /// Makes the line end with message `index`, or be empty with -1.
    void go_to(int index) { here_ = index; }
    /// The user's last message on the current line, or -1.
    int last_question() const;

    /// Appends a message to the current line and sets its parent. Its author must be the other one.
    void add(Message message);
    /// Removes the message that was added last of all.
    void drop_newest();
    /// Messages without a successor, and the end of the current line: the branches that /branches lists.
    /// In the order in which they were added.
    std::vector<int> ends() const;
    /// The successors of a message, or with -1 the messages that begin a line.
    std::vector<int> successors(int parent) const;

    /// The text of a file; parse() gives the same conversation back.
    std::string to_json() const;
    /// Errors: Malformed, naming the member ("messages[2].role: expected ...").
    static Result<Conversation> parse(std::string_view text);
    /// The current line in OpenAI's form, for tsr_dialogue.messages.
    std::string dialogue() const;

    bool operator==(const Conversation&) const = default;

  private:
    std::vector<Message> messages_;
    int here_ = -1;
};

}  // namespace tessera::repl
