#pragma once
// A conversation: messages in a tree, of which one line is the present one, and how it is kept in a file.
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"

namespace tessera::repl {

/// Why an answer has no more text; Whole where the model ended it.
enum class Cut { Whole, Length, Context, Interrupt };

struct Message {
    int parent = -1;  ///< index of what it goes on from; -1: it begins a line
    bool from_user = true;
    std::string content;
    std::string reasoning;  ///< of answers
    Cut cut = Cut::Whole;   ///< of answers

    bool operator==(const Message&) const = default;
};

/// Messages of the user and answers in turn; between turns each line ends with an answer. Nothing that was
/// said is lost: who goes back and says something else begins another branch. Texts are UTF-8. A value; one
/// thread at a time.
class Conversation {
  public:
    std::string system;   ///< what the model is told in front; empty: nothing
    std::string started;  ///< "2026-08-22T10:20:30": templates that print a date print this one
    std::map<std::string, std::string> settings;  ///< what differs from the defaults

    const std::vector<Message>& messages() const { return messages_; }
    const Message& message(int index) const { return messages_[static_cast<size_t>(index)]; }

    /// Last message of the present line; -1: it is empty.
    int here() const { return here_; }
    /// Indices of the present line, the first message first.
    std::vector<int> line() const { return line_to(here_); }
    std::vector<int> line_to(int last) const;
    /// Makes the line end with message `index`, or be empty with -1.
    void go_to(int index) { here_ = index; }
    /// The last message of the user on the present line, or -1.
    int last_question() const;

    /// Puts a message behind the present line; its parent is set here. It must not have the same author.
    void add(Message message);
    /// Takes back the message that was added last of all.
    void drop_newest();
    /// Messages that nothing goes on from, and the end of the present line: what /branches lists.
    std::vector<int> ends() const;

    /// As a file has it; parse() gives the same conversation back.
    std::string to_json() const;
    /// Errors: Malformed, naming the member ("messages[2].role: expected ...").
    static Result<Conversation> parse(std::string_view text);
    /// The present line in OpenAI's form, for tsr_dialogue.messages.
    std::string dialogue() const;

    bool operator==(const Conversation&) const = default;

  private:
    std::vector<Message> messages_;
    int here_ = -1;
};

}  // namespace tessera::repl
