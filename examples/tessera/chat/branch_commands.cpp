// /undo, /retry, /edit, /branches and /branch. Each of them only moves the end of the current line or adds a
// message; no message is removed.
#include "examples/tessera/chat/branch_commands.h"

#include <algorithm>

#include "common/strings.h"
#include "common/utf8.h"

namespace tessera::repl {

namespace {

size_t n_turns(const Conversation& conversation, int last) { return conversation.line_to(last).size() / 2; }

Result<int64_t> count_argument(std::string_view args, const char* command, int64_t most) {
    const std::optional<int64_t> n = parse_int(args);
    if (n && *n >= 1 && *n <= most) return *n;
    return fail(ErrorCode::InvalidArgument, "%s: expected a number from 1 to %lld, found '%s'", command,
                static_cast<long long>(most), printable(args).c_str());
}

/// The message in which a line differs from the others: the one after its last fork.
int first_of_its_own(const Conversation& conversation, int end) {
    std::vector<int> line = conversation.line_to(end);
    for (auto at = line.rbegin(); at != line.rend(); ++at)
        if (conversation.successors(conversation.message(*at).parent).size() > 1) return *at;
    return line.front();
}

/// The beginning of a message, from where its text differs from that of its siblings.
std::string differing_text(const Conversation& conversation, int index, size_t n_most) {
    constexpr size_t kContext = 24;  // bytes of the common text that are shown
    const Message& message = conversation.message(index);
    size_t common = 0;
    for (const int other : conversation.successors(message.parent)) {
        if (other == index) continue;
        const std::string& text = conversation.message(other).content;
        const auto end =
            std::mismatch(message.content.begin(), message.content.end(), text.begin(), text.end()).first;
        common = std::max(common, static_cast<size_t>(end - message.content.begin()));
    }
    if (common <= kContext || common == message.content.size()) return beginning(message.content, n_most);
    size_t from = message.content.rfind(' ', common - 1);
    if (from == std::string::npos || common - from > kContext) from = common - 1;
    while (from > 0 && (static_cast<unsigned char>(message.content[from]) & 0xc0) == 0x80) from--;
    return "... " + beginning(trim(std::string_view(message.content).substr(from)), n_most - 4);
}

/// `* 2  2 turns  20:31:05  turn 2, answer: Once there was ...`
std::string branch_line(const Conversation& conversation, size_t number, int end, size_t width) {
    constexpr size_t kUsual = 60, kLeft = 46, kLeast = 16;
    const size_t n_most = width == 0 ? kUsual : std::max(width, kLeft + kLeast) - kLeft;
    const int own = first_of_its_own(conversation, end);
    const std::string& time = conversation.message(end).time;
    const std::string clock = time.size() == 19 ? time.substr(11) : "        ";
    return strf("%c %2zu  %-8s %s  turn %zu, %s: %s\n", end == conversation.here() ? '*' : ' ', number,
                counted(n_turns(conversation, end), "turn", "turns").c_str(), printable(clock).c_str(),
                (conversation.line_to(own).size() + 1) / 2,
                conversation.message(own).from_user ? "you" : "answer",
                differing_text(conversation, own, n_most).c_str());
}

/// Settings with which another answer to the last message differs from the earlier ones.
Settings varied(const Repl& repl, size_t n_answers) {
    Settings out = repl.settings;
    constexpr int64_t kSeeds = int64_t{1} << 53;
    if (const auto seed = out.seed())
        (void)out.set("seed", std::to_string((*seed + static_cast<int64_t>(n_answers)) % kSeeds));
    return out;
}

}  // namespace

Result<void> undo(Repl& repl, std::string_view args) {
    Conversation& conversation = repl.conversation;
    const auto most = static_cast<int64_t>(n_turns(conversation, conversation.here()));
    if (most == 0) return fail(ErrorCode::InvalidArgument, "/undo: the conversation is empty");
    TSR_TRY(const int64_t n, args.empty() ? Result<int64_t>(1) : count_argument(args, "/undo", most));
    for (int64_t i = 0; i < n; i++) {
        repl.undone = conversation.last_question();
        conversation.go_to(conversation.message(*repl.undone).parent);
    }
    return repl.screen.note("Undone: " + beginning(conversation.message(*repl.undone).content));
}

Result<void> retry(Repl& repl, std::string_view) {
    Conversation& conversation = repl.conversation;
    const int before = conversation.here();
    if (before < 0) return fail(ErrorCode::InvalidArgument, "/retry: there is no answer yet");
    const int question = conversation.last_question();
    const std::vector<int> earlier = conversation.successors(question);
    const Settings variant = varied(repl, earlier.size());
    if (variant.seed())
        TSR_TRY_VOID(repl.screen.note(
            strf("Seed %s for this answer: with %s, which is set, it would be the same.",
                 variant.sampling().at("seed").c_str(), repl.settings.sampling().at("seed").c_str())));
    conversation.go_to(question);
    const size_t n_before = conversation.messages().size();
    TSR_TRY_VOID(repl.answer_again(before, variant));
    if (conversation.messages().size() == n_before) return {};
    const std::string text = conversation.message(conversation.here()).content;
    for (const int other : earlier) {
        if (conversation.message(other).content != text) continue;
        conversation.drop_newest();
        conversation.go_to(other);
        return repl.screen.note(
            "The answer is the same as before; a higher temperature (/set temp) makes answers differ.");
    }
    return {};
}

Result<void> edit(Repl& repl, std::string_view args) {
    Conversation& conversation = repl.conversation;
    const int before = conversation.here();
    const int edited = repl.undone ? *repl.undone : conversation.last_question();
    if (edited < 0) return fail(ErrorCode::InvalidArgument, "/edit: there is no message yet");
    const Message question = conversation.message(edited);
    std::string text(args);
    if (text.empty()) {
        if (!repl.reader->edits())
            return fail(ErrorCode::InvalidArgument, "/edit: expected the new text after it, found nothing");
        TSR_TRY(const Input input, repl.reader->read("edit > ", question.content));
        text = std::string(trim(input.text));
        if (input.kind != Input::Kind::Text || text.empty()) return repl.screen.note("Nothing was changed.");
        repl.reader->remember(text);
    }
    conversation.go_to(question.parent);
    Message changed;
    changed.is_result = question.is_result;
    changed.content = std::move(text);
    return question.is_result ? repl.ask(std::move(changed), before)
                              : repl.ask(std::move(changed.content), before);
}

Result<void> branches(Repl& repl, std::string_view) {
    std::string out;
    size_t number = 0;
    for (const int end : repl.conversation.ends())
        out += branch_line(repl.conversation, ++number, end, repl.screen.width());
    return out.empty() ? repl.screen.note("The conversation is empty.") : repl.screen.print(out);
}

Result<void> branch(Repl& repl, std::string_view args) {
    const std::vector<int> ends = repl.conversation.ends();
    if (ends.empty()) return fail(ErrorCode::InvalidArgument, "/branch: the conversation is empty");
    TSR_TRY(const int64_t n, count_argument(args, "/branch", static_cast<int64_t>(ends.size())));
    const int end = ends[static_cast<size_t>(n - 1)];
    repl.conversation.go_to(end);
    repl.undone.reset();
    return repl.screen.note("Branch " + std::to_string(n) + ": " +
                            beginning(repl.conversation.message(repl.conversation.last_question()).content));
}

}  // namespace tessera::repl
