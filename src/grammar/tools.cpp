// Free text is an automaton that looks for the triggers (Aho and Corasick); where one is complete, the calls
// follow. The automaton is deterministic, so a trigger cannot be passed over as text. Next: grammar.cpp,
// json_schema.cpp.
#include "src/grammar/tools.h"

#include <algorithm>
#include <deque>
#include <map>

#include "common/strings.h"
#include "src/grammar/json_schema.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxTriggers = 64, kMaxTriggerBytes = 1024;

/// Text up to and including the first trigger.
ByteDfa until_trigger(const std::vector<std::string>& triggers) {
    struct Place {
        std::map<uint8_t, uint32_t> next;
        uint32_t fallback = 0;
        bool complete = false;
    };
    std::vector<Place> places(1);
    for (const std::string& trigger : triggers) {
        uint32_t at = 0;
        for (const char c : trigger) {
            const auto [next, is_new] =
                places[at].next.try_emplace(static_cast<uint8_t>(c), static_cast<uint32_t>(places.size()));
            const uint32_t to = next->second;
            if (is_new) places.emplace_back();
            at = to;
        }
        places[at].complete = true;
    }
    const auto follow = [&](uint32_t at, uint8_t byte) {
        while (true) {
            const auto next = places[at].next.find(byte);
            if (next != places[at].next.end()) return next->second;
            if (at == 0) return uint32_t{0};
            at = places[at].fallback;
        }
    };
    std::deque<uint32_t> work = {0};
    while (!work.empty()) {
        const uint32_t at = work.front();
        work.pop_front();
        for (const auto& [byte, to] : places[at].next) {
            places[to].fallback = at == 0 ? 0 : follow(places[at].fallback, byte);
            places[to].complete |= places[places[to].fallback].complete;
            work.push_back(to);
        }
    }
    ByteDfa dfa;
    for (uint32_t at = 0; at < places.size(); at++) {
        ByteDfa::State state;
        state.accept = places[at].complete;
        for (unsigned byte = 0; byte < 256 && !state.accept; byte++) {
            const auto b = static_cast<uint8_t>(byte);
            const uint32_t to = follow(at, b);
            if (!state.edges.empty() && state.edges.back().to == to)
                state.edges.back().hi = b;
            else
                state.edges.push_back({b, b, to});
        }
        dfa.states.push_back(std::move(state));
    }
    return dfa;
}

/// The same text without any trigger in it; it may end anywhere.
ByteDfa without_trigger(ByteDfa dfa) {
    for (ByteDfa::State& state : dfa.states)
        std::erase_if(state.edges, [&](const ByteDfa::Edge& edge) { return dfa.states[edge.to].accept; });
    for (ByteDfa::State& state : dfa.states) state.accept = !state.accept;
    dfa.states.insert(dfa.states.begin(), dfa.states[0]);
    for (ByteDfa::State& state : dfa.states)
        for (ByteDfa::Edge& edge : state.edges) edge.to++;
    dfa.states[0].accept = false;
    return dfa;
}

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
    return program.seq(
        {program.bytes(tools.before), program.alt(std::move(ways)), program.bytes(tools.after)});
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
    if (tools.triggers.empty()) {
        const ExprId more = program.repeat(program.seq({program.bytes(tools.separator), call}), 0,
                                           tools.parallel ? kUnbounded : 0);
        program.set_body(program.root, program.seq({call, more}));
        return {};
    }
    std::vector<ExprId> triggers;
    for (const std::string& trigger : tools.triggers) triggers.push_back(program.bytes(trigger));
    const ExprId more =
        program.repeat(program.seq({program.bytes(tools.separator), program.alt(triggers), call}), 0,
                       tools.parallel ? kUnbounded : 0);
    if (tools.required) {
        program.set_body(program.root, program.seq({program.alt(triggers), call, more}));
        return {};
    }
    const ByteDfa until = until_trigger(tools.triggers);
    program.set_body(program.root, program.alt({program.optional(program.dfa(without_trigger(until), true)),
                                                program.seq({program.dfa(until, true), call, more})}));
    return {};
}

}  // namespace tessera::grammar
