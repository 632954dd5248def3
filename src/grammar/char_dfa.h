#pragma once
// Deterministic automata over code points, for patterns that are intersected and negated.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

constexpr int32_t kDeadState = -1;

/// State 0 is the start. A code point without an edge leads to kDeadState. Edges are sorted and disjoint.
struct CharDfa {
    struct Edge {
        uint32_t lo, hi;
        int32_t to;
    };
    struct State {
        std::vector<Edge> edges;
        bool accept = false;
    };
    std::vector<State> states;

    int32_t next(int32_t state, uint32_t code_point) const;
    bool accepts(int32_t state) const { return state >= 0 && states[static_cast<size_t>(state)].accept; }
    /// `text` is valid UTF-8.
    bool matches(std::string_view text) const;
};

/// Accepts texts in which a regular expression (RegexUse::Search) matches somewhere. Errors: too many states.
Result<CharDfa> search_dfa(const Program& program, ExprId pattern);

/// Accepts exactly these texts, which are valid UTF-8.
CharDfa literal_dfa(const std::vector<std::string>& texts);

}  // namespace tessera::grammar
