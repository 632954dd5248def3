// Fixed points over the rules: which are productive, nullable or left recursive, and which are inlined.
// Recursion over expressions is safe, since the front ends limit their nesting. Next: compile.cpp.
#include "src/grammar/analysis.h"

#include <algorithm>

#include "common/strings.h"

namespace tessera::grammar {

namespace {

constexpr uint32_t kLargestInlined = 64;  // states; a character with its escapes is about 40
constexpr uint32_t kLargestExpanded = 48;
constexpr uint32_t kInlineRounds = 6;  // how deep inlined rules may nest
constexpr uint32_t kManyStates = 1u << 20;

uint64_t copies(const Expr& repeat) {
    return repeat.max == kUnbounded ? uint64_t{repeat.min} + 1 : repeat.max;
}

/// "line 2, column 1: rule 'name'"
std::string described(const Program::Rule& rule) {
    return (rule.place.empty() ? "" : rule.place + ": ") + "rule '" + printable(rule.name) + "'";
}

/// For every rule the rules that use it, so that a change is propagated only to these.
std::vector<std::vector<RuleId>> find_users(const Program& program) {
    std::vector<std::vector<RuleId>> users(program.rules().size());
    std::vector<ExprId> work;
    for (RuleId rule = 0; rule < program.rules().size(); rule++) {
        const auto note = [&](const Expr& e) {
            if (e.kind == ExprKind::Rule && (users[e.index].empty() || users[e.index].back() != rule))
                users[e.index].push_back(rule);
        };
        work = {program.rules()[rule].body};
        while (!work.empty()) {
            const Expr& e = program.expr(work.back());
            work.pop_back();
            note(e);
            work.insert(work.end(), e.items.begin(), e.items.end());
            if (e.kind == ExprKind::Repeat) work.push_back(e.index);
            if (e.kind != ExprKind::Members) continue;
            const Members& members = program.member_spec(e);
            for (const Members::Key& key : members.keys) work.push_back(key.value);
            for (const Members::Open& open : members.open) work.insert(work.end(), {open.key, open.value});
        }
    }
    return users;
}

}  // namespace

Result<Analysis> Analysis::create(const Program& program) {
    Analysis analysis(program);
    analysis.find_fixed_point(analysis.productive_, &Analysis::productive_expr);
    if (!analysis.productive_[program.root])
        return fail(ErrorCode::Malformed, "%s can never end: every alternative of it refers back to it",
                    described(program.rules()[program.root]).c_str());
    analysis.find_fixed_point(analysis.nullable_, &Analysis::nullable);
    TSR_TRY_VOID(analysis.check_left_recursion());
    analysis.choose_inlined();
    return analysis;
}

std::vector<bool> Analysis::productive_rules(const Program& program) {
    Analysis analysis(program);
    analysis.find_fixed_point(analysis.productive_, &Analysis::productive_expr);
    return analysis.productive_;
}

bool Analysis::productive_expr(ExprId id) const {
    const Expr& e = program_->expr(id);
    const auto productive = [&](ExprId item) { return productive_expr(item); };
    switch (e.kind) {
        case ExprKind::Never:
            return false;
        case ExprKind::Seq:
            return std::all_of(e.items.begin(), e.items.end(), productive);
        case ExprKind::Alt:
            return std::any_of(e.items.begin(), e.items.end(), productive);
        case ExprKind::Repeat:
            return e.min == 0 || productive_expr(e.index);
        case ExprKind::Rule:
            return productive_[e.index];
        case ExprKind::Members: {
            const Members& members = program_->member_spec(e);
            uint64_t n_possible = 0;
            for (const Members::Key& key : members.keys) {
                const bool possible = productive_expr(key.value);
                if (key.required && !possible) return false;
                n_possible += possible;
            }
            return n_possible >= members.min ||
                   n_possible + std::any_of(members.open.begin(), members.open.end(),
                                            [&](const Members::Open& open) {
                                                return productive_expr(open.key) &&
                                                       productive_expr(open.value);
                                            }) >=
                       members.min;
        }
        case ExprKind::Empty:
        case ExprKind::Bytes:
        case ExprKind::Chars:
        case ExprKind::Token:
        case ExprKind::Dfa:
            return true;
    }
    return true;
}

bool Analysis::nullable(ExprId id) const {
    const Expr& e = program_->expr(id);
    const auto is_nullable = [&](ExprId item) { return nullable(item); };
    switch (e.kind) {
        case ExprKind::Empty:
            return true;
        case ExprKind::Seq:
            return std::all_of(e.items.begin(), e.items.end(), is_nullable);
        case ExprKind::Alt:
            return std::any_of(e.items.begin(), e.items.end(), is_nullable);
        case ExprKind::Repeat:
            return e.min == 0 || nullable(e.index);
        case ExprKind::Rule:
            return nullable_[e.index];
        case ExprKind::Never:
        case ExprKind::Bytes:
        case ExprKind::Chars:
        case ExprKind::Token:
        case ExprKind::Dfa:
        case ExprKind::Members:
            return false;
    }
    return false;
}

void Analysis::find_fixed_point(std::vector<bool>& known, bool (Analysis::*holds)(ExprId) const) {
    const auto& rules = program_->rules();
    const auto users = find_users(*program_);
    known.assign(rules.size(), false);
    std::vector<RuleId> work(rules.size());
    for (RuleId i = 0; i < rules.size(); i++) work[i] = i;
    while (!work.empty()) {
        const RuleId rule = work.back();
        work.pop_back();
        if (known[rule] || !(this->*holds)(rules[rule].body)) continue;
        known[rule] = true;
        work.insert(work.end(), users[rule].begin(), users[rule].end());
    }
}

void Analysis::first_rules(ExprId id, std::vector<RuleId>& out) const {
    const Expr& e = program_->expr(id);
    switch (e.kind) {
        case ExprKind::Seq:
            for (const ExprId item : e.items) {
                first_rules(item, out);
                if (!nullable(item)) break;
            }
            break;
        case ExprKind::Alt:
            for (const ExprId item : e.items) first_rules(item, out);
            break;
        case ExprKind::Repeat:
            first_rules(e.index, out);
            break;
        case ExprKind::Rule:
            out.push_back(e.index);
            break;
        default:
            break;
    }
}

Result<void> Analysis::check_left_recursion() const {
    const auto& rules = program_->rules();
    enum class Mark : uint8_t { New, Open, Done };
    std::vector<Mark> marks(rules.size(), Mark::New);
    struct Visit {
        RuleId rule;
        std::vector<RuleId> next;
        size_t at = 0;
    };
    std::vector<Visit> stack;  // an explicit stack: a chain of rules may be as long as the grammar
    for (RuleId start = 0; start < rules.size(); start++) {
        if (marks[start] != Mark::New) continue;
        stack.push_back({start, {}});
        first_rules(rules[start].body, stack.back().next);
        marks[start] = Mark::Open;
        while (!stack.empty()) {
            Visit& visit = stack.back();
            if (visit.at == visit.next.size()) {
                marks[visit.rule] = Mark::Done;
                stack.pop_back();
                continue;
            }
            const RuleId next = visit.next[visit.at++];
            if (marks[next] == Mark::Open)
                return fail(ErrorCode::Malformed,
                            "%s is left recursive: it can reach itself without consuming anything; write a "
                            "repetition instead, as in  list ::= item (\",\" item)*",
                            described(rules[next]).c_str());
            if (marks[next] == Mark::Done) continue;
            marks[next] = Mark::Open;
            stack.push_back({next, {}});
            first_rules(rules[next].body, stack.back().next);
        }
    }
    return {};
}

uint32_t Analysis::size(ExprId id) const {
    const Expr& e = program_->expr(id);
    uint64_t total = 1;
    switch (e.kind) {
        case ExprKind::Bytes:
            total = program_->literal(e).size();
            break;
        case ExprKind::Chars:
            total = 1 + program_->charset(e).ranges().size() * 2;
            break;
        case ExprKind::Seq:
        case ExprKind::Alt:
            for (const ExprId item : e.items) total += size(item);
            break;
        case ExprKind::Repeat: {
            const uint64_t body = size(e.index);
            total = expands(e, body) ? body * copies(e) + 1 : body + 2;
            break;
        }
        case ExprKind::Rule:
            total = inline_[e.index] ? size(program_->rules()[e.index].body) : 1;
            break;
        case ExprKind::Dfa:
            total = program_->byte_dfa(e).states.size();
            break;
        case ExprKind::Members:
            total = kManyStates;
            break;
        default:
            break;
    }
    return static_cast<uint32_t>(std::min<uint64_t>(total, kManyStates));
}

bool Analysis::expands(const Expr& repeat, uint64_t body_size) {
    if (repeat.max == kUnbounded && repeat.min <= 1) return true;
    return copies(repeat) <= 1 || copies(repeat) * body_size <= kLargestExpanded;
}

bool Analysis::calls_only_inlined(ExprId id) const {
    const Expr& e = program_->expr(id);
    switch (e.kind) {
        case ExprKind::Seq:
        case ExprKind::Alt:
            return std::all_of(e.items.begin(), e.items.end(),
                               [&](ExprId item) { return calls_only_inlined(item); });
        case ExprKind::Repeat:
            return calls_only_inlined(e.index);
        case ExprKind::Rule:
            return inline_[e.index];
        case ExprKind::Members:
            return false;
        default:
            return true;
    }
}

void Analysis::choose_inlined() {
    const auto& rules = program_->rules();
    inline_.assign(rules.size(), false);
    for (uint32_t round = 0; round < kInlineRounds; round++) {
        std::vector<RuleId> chosen;
        for (RuleId i = 0; i < rules.size(); i++)
            if (!inline_[i] && i != program_->root && calls_only_inlined(rules[i].body) &&
                size(rules[i].body) <= kLargestInlined)
                chosen.push_back(i);
        if (chosen.empty()) return;
        for (const RuleId rule : chosen) inline_[rule] = true;
    }
}

}  // namespace tessera::grammar
