// Construction of expressions, with the simplifications that every front end would otherwise repeat.
// Next: compile.cpp.
#include "src/grammar/program.h"

#include <utility>

namespace tessera::grammar {

namespace {

template <class T>
uint32_t append(std::vector<T>& table, T value) {
    table.push_back(std::move(value));
    return static_cast<uint32_t>(table.size() - 1);
}

}  // namespace

Program::Program() {
    add({.kind = ExprKind::Empty});
    add({.kind = ExprKind::Never});
}

ExprId Program::add(Expr expr) { return append(exprs_, std::move(expr)); }

ExprId Program::bytes(std::string_view text) {
    if (text.empty()) return empty();
    return add({.kind = ExprKind::Bytes, .index = append(literals_, std::string(text))});
}

ExprId Program::chars(CharSet set) {
    if (set.empty()) return never();
    return add({.kind = ExprKind::Chars, .index = append(charsets_, std::move(set))});
}

ExprId Program::seq(std::vector<ExprId> items) {
    std::erase(items, empty());
    for (const ExprId item : items)
        if (item == never()) return never();
    if (items.empty()) return empty();
    if (items.size() == 1) return items[0];
    return add({.kind = ExprKind::Seq, .items = std::move(items)});
}

ExprId Program::alt(std::vector<ExprId> items) {
    std::erase(items, never());
    if (items.empty()) return never();
    if (items.size() == 1) return items[0];
    return add({.kind = ExprKind::Alt, .items = std::move(items)});
}

ExprId Program::repeat(ExprId body, uint32_t min, uint32_t max) {
    if (max == 0 || body == empty()) return empty();
    if (body == never()) return min == 0 ? empty() : never();
    if (min == 1 && max == 1) return body;
    return add({.kind = ExprKind::Repeat, .index = body, .min = min, .max = max});
}

ExprId Program::rule(RuleId id) { return add({.kind = ExprKind::Rule, .index = id}); }

ExprId Program::token(TokenRef ref) {
    return add({.kind = ExprKind::Token, .index = append(tokens_, std::move(ref))});
}

ExprId Program::dfa(ByteDfa dfa, bool free) {
    return add({.kind = ExprKind::Dfa, .free = free, .index = append(dfas_, std::move(dfa))});
}

ExprId Program::members(Members members) {
    return add({.kind = ExprKind::Members, .index = append(members_, std::move(members))});
}

RuleId Program::add_rule(std::string name) { return append(rules_, Rule{std::move(name)}); }

}  // namespace tessera::grammar
