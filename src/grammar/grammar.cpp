// Entry points of the library: each front end creates a Program, which is compiled the same way. Next:
// gbnf.cpp, regex.cpp, json_schema.cpp, tools.cpp.
#include "src/grammar/grammar.h"

#include "src/grammar/free_text.h"
#include "src/grammar/gbnf.h"
#include "src/grammar/json_schema.h"
#include "src/grammar/regex.h"
#include "src/grammar/tools.h"

namespace tessera::grammar {

Result<std::shared_ptr<const Grammar>> Grammar::create(const Program& program) {
    TSR_TRY(Automaton automaton, compile(program));
    return std::shared_ptr<const Grammar>(new Grammar(std::move(automaton)));
}

Result<std::shared_ptr<const Grammar>> Grammar::from_gbnf(std::string_view text, const Reasoning& reasoning) {
    auto program = parse_gbnf(text);
    if (!program) return fail_in("grammar", std::move(program.error()));
    allow_reasoning(reasoning, *program);
    auto grammar = create(*program);
    if (!grammar) return fail_in("grammar", std::move(grammar.error()));
    return grammar;
}

Result<std::shared_ptr<const Grammar>> Grammar::from_regex(std::string_view pattern,
                                                           const Reasoning& reasoning) {
    Program program;
    program.root = program.add_rule("pattern");
    auto body = parse_regex(pattern, RegexUse::Whole, program);
    if (!body) return fail_in("regular expression", std::move(body.error()));
    program.set_body(program.root, *body);
    allow_reasoning(reasoning, program);
    auto grammar = create(program);
    if (!grammar) return fail_in("regular expression", std::move(grammar.error()));
    return grammar;
}

Result<std::shared_ptr<const Grammar>> Grammar::from_json_schema(std::string_view schema,
                                                                 const SchemaOptions& options,
                                                                 const Reasoning& reasoning) {
    Program program;
    program.root = program.add_rule("schema");
    auto body = add_json_schema(schema, options, program);
    if (!body) return fail_in("JSON schema", std::move(body.error()));
    program.set_body(program.root, *body);
    allow_reasoning(reasoning, program);
    auto grammar = create(program);
    if (!grammar) return fail_in("JSON schema", std::move(grammar.error()));
    return grammar;
}

Result<std::shared_ptr<const Grammar>> Grammar::json_object(const SchemaOptions& options,
                                                            const Reasoning& reasoning) {
    return from_json_schema(R"({"type": "object"})", options, reasoning);
}

Result<std::shared_ptr<const Grammar>> Grammar::from_tools(const ToolGrammar& tools) {
    Program program;
    TSR_TRY_VOID(build_tools(tools, program));
    allow_reasoning(tools.reasoning, program);
    return create(program);
}

}  // namespace tessera::grammar
