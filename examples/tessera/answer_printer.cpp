// Routes the parts of an answer. Reasoning is kept out of standard output, so that a pipe or a file gets the
// answer alone; on a terminal both streams are visible, hence the line feeds between them.
#include "examples/tessera/answer_printer.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "examples/tessera/console.h"

namespace tessera {

namespace {

/// {"id"?, "name", "arguments"}
Json call_json(const chat::ToolCall& call) {
    Json out = Json::object();
    if (!call.id.empty()) out["id"] = call.id;
    out["name"] = call.name;
    out["arguments"] = Json::parse(call.arguments, nullptr, false);
    // Arguments with numbers out of range stay text.
    if (out["arguments"].is_discarded()) out["arguments"] = call.arguments;
    return out;
}

}  // namespace

Result<void> AnswerPrinter::print(std::string_view text) {
    if (text.empty()) return {};
    if (reasoning_line_open_) std::fputc('\n', stderr);
    reasoning_line_open_ = false;
    at_line_start_ = text.ends_with('\n');
    return console::print(text);
}

void AnswerPrinter::think(std::string_view text) {
    if (text.empty() || console::verbosity() == console::Verbosity::Quiet) return;
    // Each piece is dimmed separately, so that an interrupted program does not leave the terminal dimmed.
    const bool dims = console::is_terminal(STDERR_FILENO);
    const std::string shown = dims ? "\033[2m" + std::string(text) + "\033[22m" : std::string(text);
    std::fwrite(shown.data(), 1, shown.size(), stderr);
    reasoning_line_open_ = !text.ends_with('\n');
}

Result<void> AnswerPrinter::show() {
    const std::vector<chat::Delta> deltas = parser_->take_deltas();
    if (silent_) return {};
    for (const chat::Delta& delta : deltas) {
        switch (delta.kind) {
            case chat::Delta::Kind::Content:
                TSR_TRY_VOID(print(delta.text));
                break;
            case chat::Delta::Kind::Reasoning:
                think(delta.text);
                break;
            case chat::Delta::Kind::Call:
                if (!at_line_start_) TSR_TRY_VOID(print("\n"));
                TSR_TRY_VOID(print(json_line(call_json(parser_->answer().calls[delta.call_index]))));
                break;
            case chat::Delta::Kind::CallBegin:
            case chat::Delta::Kind::CallArguments:
                break;  // of streaming interfaces only
        }
    }
    return {};
}

Result<void> AnswerPrinter::push(std::string_view text) {
    parser_->push(text);
    return show();
}

Result<void> AnswerPrinter::finish() {
    parser_->finish();
    TSR_TRY_VOID(show());
    if (!silent_ && !at_line_start_) TSR_TRY_VOID(print("\n"));
    if (reasoning_line_open_) std::fputc('\n', stderr);
    reasoning_line_open_ = false;
    for (const std::string& note : parser_->answer().notes) console::note("answer: %s", note.c_str());
    return {};
}

Json AnswerPrinter::to_json() const {
    const chat::Answer& answer = parser_->answer();
    Json calls = Json::array();
    for (const chat::ToolCall& call : answer.calls) calls.push_back(call_json(call));
    return {{"content", answer.content},
            {"reasoning", answer.reasoning},
            {"tool_calls", calls},
            {"notes", answer.notes}};
}

}  // namespace tessera
