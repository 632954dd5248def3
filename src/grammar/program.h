#pragma once
// A grammar before it is compiled: rules made of a few kinds of expressions. All front ends (GBNF, regular
// expressions, JSON schema, tool calls) produce it, and only compile.cpp reads it.
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/grammar/charset.h"

namespace tessera::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

/// A nondeterministic byte automaton, or a deterministic one; state 0 is the start. The start is never
/// accepting.
struct ByteDfa {
    struct Edge {
        uint8_t lo, hi;
        uint32_t to;
    };
    struct State {
        std::vector<Edge> edges;
        bool accept = false;
    };
    std::vector<State> states;
};

/// A whole token of the vocabulary rather than text.
struct TokenRef {
    int32_t id = -1;       ///< or
    std::string text;      ///< its spelling, if id < 0
    bool negated = false;  ///< matches any other token
};

/// Members of an object, or a list of distinct values: each key at most once, in an order consistent with all
/// chains, with all required keys. The set of keys already used is kept on the stack, so that n keys need n
/// states, not 2^n.
struct Members {
    struct Key {
        std::string literal;  ///< the key's bytes, with quotes
        ExprId value;         ///< the expression that follows the literal
        bool required = false;
    };
    struct Open {
        ExprId key, value;
    };
    std::vector<Key> keys;  ///< sorted by literal, distinct
    /// Sequences of keys (by index) that must come in this order. The chains together have no cycle.
    std::vector<std::vector<uint32_t>> chains;
    std::vector<Open> open;  ///< further keys, given by a grammar; these may repeat
    uint32_t min = 0, max = kUnbounded;
    ExprId before = 0, after = 0, comma = 0;  ///< brackets and separator with their white space
};

enum class ExprKind : uint8_t { Empty, Never, Bytes, Chars, Seq, Alt, Repeat, Rule, Token, Dfa, Members };

struct Expr {
    ExprKind kind = ExprKind::Empty;
    bool free = false;   ///< Dfa: free text, in which special tokens may occur
    uint32_t index = 0;  ///< index into the table of the kind; id of the rule; body of a Repeat
    uint32_t min = 0, max = 0;
    std::vector<ExprId> items = {};  ///< Seq, Alt
};

/// Builds and owns the expressions. Id 0 is Empty.
class Program {
  public:
    Program();

    ExprId empty() const { return 0; }
    ExprId never() const { return 1; }
    ExprId bytes(std::string_view text);
    ExprId chars(CharSet set);
    ExprId seq(std::vector<ExprId> items);
    ExprId alt(std::vector<ExprId> items);
    ExprId repeat(ExprId body, uint32_t min, uint32_t max);
    ExprId optional(ExprId body) { return repeat(body, 0, 1); }
    ExprId rule(RuleId id);
    ExprId token(TokenRef ref);
    ExprId dfa(ByteDfa dfa, bool free = false);
    ExprId members(Members members);

    RuleId add_rule(std::string name);
    void set_place(RuleId id, std::string place) { rules_[id].place = std::move(place); }
    void set_body(RuleId id, ExprId body) { rules_[id].body = body; }

    struct Rule {
        std::string name;
        ExprId body = 1;
        std::string place = {};  ///< where it is defined, e.g. "line 3, column 1"; may be empty
    };
    const Expr& expr(ExprId id) const { return exprs_[id]; }
    size_t n_exprs() const { return exprs_.size(); }
    const std::vector<Rule>& rules() const { return rules_; }
    const std::string& literal(const Expr& e) const { return literals_[e.index]; }
    const CharSet& charset(const Expr& e) const { return charsets_[e.index]; }
    const ByteDfa& byte_dfa(const Expr& e) const { return dfas_[e.index]; }
    const Members& member_spec(const Expr& e) const { return members_[e.index]; }
    const std::vector<TokenRef>& tokens() const { return tokens_; }

    RuleId root = 0;

  private:
    ExprId add(Expr expr);

    std::vector<Expr> exprs_;
    std::vector<Rule> rules_;
    std::vector<std::string> literals_;
    std::vector<CharSet> charsets_;
    std::vector<ByteDfa> dfas_;
    std::vector<Members> members_;
    std::vector<TokenRef> tokens_;
};

}  // namespace tessera::grammar
