// An Aho-Corasick automaton that searches for the marks. It is deterministic, so that a mark cannot also
// match as text. Next: tools.cpp, grammar.cpp.
#include "src/grammar/free_text.h"

#include <algorithm>
#include <deque>
#include <map>

namespace tessera::grammar {

ByteDfa text_until(const std::vector<std::string>& marks) {
    struct Place {
        std::map<uint8_t, uint32_t> next;
        uint32_t fallback = 0;
        bool complete = false;
    };
    std::vector<Place> places(1);
    for (const std::string& mark : marks) {
        uint32_t at = 0;
        for (const char c : mark) {
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

ByteDfa text_without(ByteDfa until) {
    for (ByteDfa::State& state : until.states)
        std::erase_if(state.edges, [&](const ByteDfa::Edge& edge) { return until.states[edge.to].accept; });
    for (ByteDfa::State& state : until.states) state.accept = !state.accept;
    until.states.insert(until.states.begin(), until.states[0]);
    for (ByteDfa::State& state : until.states)
        for (ByteDfa::Edge& edge : state.edges) edge.to++;
    until.states[0].accept = false;
    return until;
}

ExprId add_mark(std::string_view text, Program& program) {
    if (text.empty()) return program.empty();
    ByteDfa dfa;
    for (size_t i = 0; i < text.size(); i++) {
        const auto byte = static_cast<uint8_t>(text[i]);
        dfa.states.push_back({{{byte, byte, static_cast<uint32_t>(i + 1)}}, false});
    }
    dfa.states.push_back({{}, true});
    return program.dfa(std::move(dfa), true);
}

void allow_reasoning(const Reasoning& reasoning, Program& program) {
    if (reasoning.end.empty()) return;
    constexpr uint32_t kMostLines = 4;  // blank lines between reasoning and the constrained output
    const ExprId rest = program.seq(
        {program.dfa(text_until({reasoning.end}), true), program.repeat(program.bytes("\n"), 0, kMostLines)});
    const ExprId front =
        reasoning.is_open ? rest : program.optional(program.seq({add_mark(reasoning.begin, program), rest}));
    const ExprId body = program.seq({front, program.rule(program.root)});
    program.root = program.add_rule("reasoning");
    program.set_body(program.root, body);
}

}  // namespace tessera::grammar
