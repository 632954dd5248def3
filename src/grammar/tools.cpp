// Free text up to a trigger (free_text.h), then calls between the marks of the model's format, which may be
// special tokens: a JSON object with the function's name, or the name followed by arguments in JSON or
// another notation. Next: grammar.cpp, json_schema.cpp.
#include "src/grammar/tools.h"

#include <algorithm>
#include <utility>

#include "common/strings.h"
#include "src/grammar/free_text.h"
#include "src/grammar/json_schema.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxTriggers = 64, kMaxTriggerBytes = 1024;

/// Checks that the parsers of all formats can read the name without quotes.
Result<void> check_name(const std::string& name) {
    constexpr size_t kMaxName = 256;
    const auto is_word = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-' || c == '.';
    };
    if (!name.empty() && name.size() <= kMaxName && std::all_of(name.begin(), name.end(), is_word)) return {};
    return fail(
        ErrorCode::InvalidArgument,
        "tool \"%s\": expected a name of 1 to %zu letters, digits, '_', '-' and '.', as this format of "
        "calls writes it without quotes",
        printable(name).c_str(), kMaxName);
}

/// A call as a JSON object.
ExprId json_call(const ToolGrammar& tools, const ToolSpec& tool, ExprId arguments, Program& program) {
    const bool spaced = tools.json.layout == JsonLayout::Free;
    const auto space = [&] { return spaced ? program.optional(program.bytes(" ")) : program.empty(); };
    return program.seq({program.bytes("{"), program.bytes(quote_json(tools.name_key)), program.bytes(":"),
                        space(), program.bytes(quote_json(tool.name)), program.bytes(","), space(),
                        program.bytes(quote_json(tools.arguments_key)), program.bytes(":"), space(),
                        arguments, program.bytes("}")});
}

/// The text between a trigger and the next.
Result<ExprId> one_call(const ToolGrammar& tools, Program& program) {
    const bool is_named = !tools.name_end.empty();
    std::vector<ExprId> ways;
    for (const ToolSpec& tool : tools.tools) {
        std::string_view schema = tool.parameters;
        if (schema.empty()) schema = R"({"type": "object"})";
        if (is_named) TSR_TRY_VOID(check_name(tool.name));
        auto arguments = tools.arguments ? add_arguments(schema, tools.json, *tools.arguments, program)
                                         : add_json_schema(schema, tools.json, program);
        if (!arguments)
            return fail_in(strf("tool \"%s\"", printable(tool.name).c_str()), std::move(arguments.error()));
        ways.push_back(is_named ? program.seq({program.bytes(tool.name), add_mark(tools.name_end, program),
                                               *arguments, add_mark(tools.call_end, program)})
                                : json_call(tools, tool, *arguments, program));
    }
    const ExprId call = program.seq({add_mark(tools.call_begin, program), program.alt(std::move(ways))});
    const bool in_list = tools.parallel && (tools.is_list || !tools.list_separator.empty());
    const ExprId more =
        program.repeat(program.seq({program.bytes(tools.list_separator), call}), 0, in_list ? kUnbounded : 0);
    return program.seq({program.bytes(tools.before), call, more, add_mark(tools.after, program)});
}

/// Text in which no call begins.
ExprId text_of_no_call(const ToolGrammar& tools, Program& program) {
    std::vector<std::string> marks = tools.triggers;
    if (!tools.forbidden.empty()) marks.push_back(tools.forbidden);
    // Without marks, a byte that never occurs serves as one.
    ByteDfa text =
        text_without(text_until(marks.empty() ? std::vector<std::string>{std::string(1, '\0')} : marks));
    if (tools.triggers.empty()) {
        // A bracket would begin a call, and parsers skip white space in front of it.
        ByteDfa::State& start = text.states[0];
        const std::vector<ByteDfa::Edge> edges = std::exchange(start.edges, {});
        for (const ByteDfa::Edge& edge : edges)
            for (unsigned byte = edge.lo; byte <= edge.hi; byte++)
                if (std::string_view("{[ \t\r\n\v\f").find(static_cast<char>(byte)) == std::string_view::npos)
                    start.edges.push_back({static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), edge.to});
    }
    return program.optional(program.dfa(std::move(text), true));
}

/// Text up to and including the first trigger.
ExprId text_and_trigger(const ToolGrammar& tools, Program& program) {
    if (tools.forbidden.empty()) return program.dfa(text_until(tools.triggers), true);
    std::vector<std::string> marks = tools.triggers;
    marks.push_back(tools.forbidden);
    ByteDfa until = text_until(marks);
    // Removes the edges that would complete the forbidden mark.
    uint32_t at = 0;
    for (const char c : tools.forbidden) {
        const auto byte = static_cast<uint8_t>(c);
        const auto& edges = until.states[at].edges;
        const auto edge = std::find_if(edges.begin(), edges.end(),
                                       [&](const ByteDfa::Edge& e) { return e.lo <= byte && byte <= e.hi; });
        if (edge == edges.end()) return program.dfa(std::move(until), true);  // a trigger comes first
        at = edge->to;
    }
    until.states[at].accept = false;
    until.states[at].edges.clear();
    trim(until);
    return program.dfa(std::move(until), true);
}

}  // namespace

Result<void> build_tools(const ToolGrammar& tools, Program& program) {
    if (tools.tools.empty())
        return fail(ErrorCode::InvalidArgument, "expected at least one tool, found none");
    if (tools.triggers.size() > kMaxTriggers)
        return fail(ErrorCode::Unsupported, "expected at most %zu triggers, found %zu", kMaxTriggers,
                    tools.triggers.size());
    for (const std::string& trigger : tools.triggers)
        if (trigger.empty() || trigger.size() > kMaxTriggerBytes)
            return fail(ErrorCode::InvalidArgument, "expected a trigger of 1 to %zu bytes, found one of %zu",
                        kMaxTriggerBytes, trigger.size());
    program.root = program.add_rule("output");
    if (tools.none) {
        program.set_body(program.root, text_of_no_call(tools, program));
        return {};
    }
    TSR_TRY(const ExprId call, one_call(tools, program));
    std::vector<ExprId> triggers;
    for (const std::string& trigger : tools.triggers) triggers.push_back(add_mark(trigger, program));
    const ExprId trigger = triggers.empty() ? program.empty() : program.alt(triggers);
    const bool repeats = tools.parallel && tools.list_separator.empty() && !tools.is_list;
    const ExprId more = program.repeat(program.seq({add_mark(tools.separator, program), trigger, call}), 0,
                                       repeats ? kUnbounded : 0);
    const ExprId last = program.optional(add_mark(tools.last, program));
    if (tools.required) {
        program.set_body(program.root, program.seq({trigger, call, more, last}));
        return {};
    }
    const ExprId begin = tools.triggers.empty() ? program.empty() : text_and_trigger(tools, program);
    program.set_body(program.root,
                     program.alt({text_of_no_call(tools, program), program.seq({begin, call, more, last})}));
    return {};
}

}  // namespace tessera::grammar
