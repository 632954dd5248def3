// The C interface: grammars. A handle shares its grammar with the requests and sessions that use it, and may
// be freed before them.
#include "src/capi/guard.h"
#include "src/capi/handles.h"

namespace tessera::capi {

namespace {

using grammar::Grammar;

Result<std::shared_ptr<const Grammar>> create(const tsr_grammar_options& given) {
    TSR_TRY(const std::string_view text, need_text(given.text, given.n_text, "text"));
    const grammar::SchemaOptions json{.layout = given.compact_json ? grammar::JsonLayout::Compact
                                                                   : grammar::JsonLayout::Free};
    const grammar::Reasoning reasoning =
        given.prompt ? engine::reasoning_of(*given.prompt) : grammar::Reasoning();
    switch (given.kind) {
        case TSR_GRAMMAR_GBNF:
            return Grammar::from_gbnf(text, reasoning);
        case TSR_GRAMMAR_REGEX:
            return Grammar::from_regex(text, reasoning);
        case TSR_GRAMMAR_JSON_SCHEMA:
            return Grammar::from_json_schema(text, json, reasoning);
        case TSR_GRAMMAR_JSON_OBJECT:
            return Grammar::json_object(json, reasoning);
    }
    return fail(ErrorCode::InvalidArgument, "kind: expected one of tsr_grammar_kind, found %d",
                static_cast<int>(given.kind));
}

/// The call format from the caller's fields, without a prompt.
Result<grammar::ToolGrammar> own_form(const tsr_tool_grammar_options& given, std::string_view function) {
    TSR_TRY_VOID(need(given.tools, "tools"));
    TSR_TRY(const auto triggers, need_span(given.triggers, given.n_triggers, "triggers"));
    grammar::ToolGrammar out;
    TSR_TRY(const chat::Value tools, engine::read_tools(given.tools));
    TSR_TRY(out.tools, engine::tool_specs(tools, function));
    for (const char* trigger : triggers) {
        TSR_TRY_VOID(need(trigger, "trigger"));
        out.triggers.emplace_back(trigger);
    }
    if (given.before) out.before = given.before;
    if (given.after) out.after = given.after;
    if (given.separator) out.separator = given.separator;
    out.required = given.required != 0;
    out.parallel = given.parallel != 0;
    out.none = given.none != 0;
    return out;
}

Result<grammar::ToolGrammar> prompts_form(const tsr_tool_grammar_options& given, std::string_view function) {
    if (given.tools || given.n_triggers > 0 || given.before || given.after || given.separator)
        return fail(ErrorCode::InvalidArgument,
                    "expected a prompt, or tools with how their calls are written, found both");
    return engine::tool_calls_of(*given.prompt, {.required = given.required != 0,
                                                 .parallel = given.parallel != 0,
                                                 .none = given.none != 0,
                                                 .function = function});
}

Result<std::shared_ptr<const Grammar>> create_tools(const tsr_tool_grammar_options& given) {
    const std::string_view function = given.function ? given.function : "";
    TSR_TRY(grammar::ToolGrammar tools,
            given.prompt ? prompts_form(given, function) : own_form(given, function));
    if (given.compact_json) tools.json.layout = grammar::JsonLayout::Compact;
    return Grammar::from_tools(tools);
}

}  // namespace

}  // namespace tessera::capi

using namespace tessera;
using namespace tessera::capi;

tsr_status tsr_grammar_create(const tsr_grammar_options* options, tsr_grammar** grammar, tsr_error* error) {
    if (grammar) *grammar = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(options, "options"));
        TSR_TRY_VOID(need(grammar, "grammar"));
        TSR_TRY(const tsr_grammar_options given, read_options(options, "options"));
        TSR_TRY(auto created, create(given));
        *grammar = new tsr_grammar{std::move(created)};
        return {};
    });
}

tsr_status tsr_grammar_create_tools(const tsr_tool_grammar_options* options, tsr_grammar** grammar,
                                    tsr_error* error) {
    if (grammar) *grammar = nullptr;
    return guarded(error, [&]() -> Result<void> {
        TSR_TRY_VOID(need(options, "options"));
        TSR_TRY_VOID(need(grammar, "grammar"));
        TSR_TRY(const tsr_tool_grammar_options given, read_options(options, "options"));
        TSR_TRY(auto created, create_tools(given));
        *grammar = new tsr_grammar{std::move(created)};
        return {};
    });
}

void tsr_grammar_free(tsr_grammar* grammar) { delete grammar; }
