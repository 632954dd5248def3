// Free text until a trigger (free_text.h), then calls: JSON between the marks of the model's format, which
// may be control tokens. Next: grammar.cpp, json_schema.cpp.
#include "src/grammar/tools.h"

#include "common/strings.h"
#include "src/grammar/free_text.h"
#include "src/grammar/json_schema.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxTriggers = 64, kMaxTriggerBytes = 1024;

/// What stands between a trigger and the next.
Result<ExprId> one_call(const ToolGrammar& tools, Program& program) {
    std::vector<ExprId> ways;
    for (const ToolSpec& tool : tools.tools) {
        std::string_view schema = tool.parameters;
        if (schema.empty()) schema = R"({"type": "object"})";
        auto arguments = add_json_schema(schema, tools.json, program);
        if (!arguments)
            return fail_in(strf("tool \"%s\"", printable(tool.name).c_str()), std::move(arguments.error()));
        const bool spaced = tools.json.layout == JsonLayout::Free;
        const auto space = [&] { return spaced ? program.optional(program.bytes(" ")) : program.empty(); };
        ways.push_back(
            program.seq({program.bytes("{"), program.bytes(quote_json(tools.name_key)), program.bytes(":"),
                         space(), program.bytes(quote_json(tool.name)), program.bytes(","), space(),
                         program.bytes(quote_json(tools.arguments_key)), program.bytes(":"), space(),
                         *arguments, program.bytes("}")}));
    }
    const ExprId call = program.alt(std::move(ways));
    const bool in_list = tools.parallel && !tools.list_separator.empty();
    const ExprId more =
        program.repeat(program.seq({program.bytes(tools.list_separator), call}), 0, in_list ? kUnbounded : 0);
    return program.seq({program.bytes(tools.before), call, more, add_mark(tools.after, program)});
}

}  // namespace

Result<void> build_tools(const ToolGrammar& tools, Program& program) {
    if (tools.tools.empty()) return fail(ErrorCode::InvalidArgument, "no tools: a call needs at least one");
    if (tools.triggers.size() > kMaxTriggers)
        return fail(ErrorCode::Unsupported, "%zu triggers; at most %zu are looked for", tools.triggers.size(),
                    kMaxTriggers);
    for (const std::string& trigger : tools.triggers)
        if (trigger.empty() || trigger.size() > kMaxTriggerBytes)
            return fail(ErrorCode::InvalidArgument, "a trigger has 1 to %zu bytes, found %zu",
                        kMaxTriggerBytes, trigger.size());
    program.root = program.add_rule("output");
    TSR_TRY(const ExprId call, one_call(tools, program));
    const bool repeats = tools.parallel && tools.list_separator.empty();
    if (tools.triggers.empty()) {
        const ExprId more =
            program.repeat(program.seq({program.bytes(tools.separator), call}), 0, repeats ? kUnbounded : 0);
        program.set_body(program.root, program.seq({call, more}));
        return {};
    }
    std::vector<ExprId> triggers;
    for (const std::string& trigger : tools.triggers) triggers.push_back(add_mark(trigger, program));
    const ExprId more =
        program.repeat(program.seq({program.bytes(tools.separator), program.alt(triggers), call}), 0,
                       repeats ? kUnbounded : 0);
    if (tools.required) {
        program.set_body(program.root, program.seq({program.alt(triggers), call, more}));
        return {};
    }
    const ByteDfa until = text_until(tools.triggers);
    program.set_body(program.root, program.alt({program.optional(program.dfa(text_without(until), true)),
                                                program.seq({program.dfa(until, true), call, more})}));
    return {};
}

}  // namespace tessera::grammar
