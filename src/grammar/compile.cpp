// Compiles expressions to states, back to front: each expression is compiled to continue at an existing
// state, and its entry is returned. Rules are entered by Call states, whose targets are filled in at the end.
// Assumes the guarantees of Analysis: no left recursion, and a productive root. Next: stacks.cpp, which runs
// the states.
#include <algorithm>
#include <map>
#include <string>

#include "src/grammar/analysis.h"
#include "src/grammar/automaton.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxStates = 4'000'000;
constexpr size_t kMaxEdges = 16'000'000;

class Compiler {
  public:
    Compiler(const Program& program, const Analysis& analysis) : program_(program), analysis_(analysis) {}

    Result<Automaton> run();

  private:
    // Whether an expression matches all its texts or only the non-empty ones. A counted iteration must
    // consume something, or counting would not terminate.
    enum class Want : uint8_t { All, NonEmpty };

    uint32_t add(AutomatonState state);
    uint32_t split(std::vector<uint32_t> targets);
    void set_split(uint32_t state, const std::vector<uint32_t>& targets);
    uint32_t shift(std::span<const ByteEdge> edges);
    uint32_t emit(ExprId id, uint32_t next, Want want);
    uint32_t emit_bytes(std::string_view text, uint32_t next);
    uint32_t emit_chars(const CharSet& set, uint32_t next);
    uint32_t emit_sequences(std::span<const ByteSequence> sequences, size_t depth, uint32_t next,
                            std::map<std::string, uint32_t>& known);
    uint32_t emit_seq(const Expr& e, uint32_t next, Want want);
    uint32_t emit_alt(const Expr& e, uint32_t next, Want want);
    uint32_t emit_literals(std::span<const std::string_view> literals, size_t depth, uint32_t next);
    uint32_t emit_repeat(const Expr& e, uint32_t next, Want want);
    uint32_t emit_star(ExprId body, uint32_t next);
    uint32_t emit_rule(RuleId rule, uint32_t next, Want want);
    uint32_t emit_dfa(const Expr& e, uint32_t next);
    Members live_members(const Members& all) const;
    uint32_t emit_members(const Members& all, uint32_t next);
    uint32_t emit_keys(const Members& members, size_t lo, size_t hi, size_t depth,
                       const std::vector<uint32_t>& values);
    static MemberRules member_rules(const Members& members);
    void resolve_calls();
    void shorten_tail_calls();
    void find_byte_classes();

    const Program& program_;
    const Analysis& analysis_;
    Automaton out_;
    uint32_t dead_ = 0, return_ = 0;
    std::map<std::pair<RuleId, Want>, uint32_t> variants_;  // index into entries_
    std::vector<std::pair<RuleId, Want>> wanted_;
    std::vector<uint32_t> entries_;
    std::vector<uint32_t> calls_;  // states whose `a` is an index into entries_
    bool too_large_ = false;
};

uint32_t Compiler::add(AutomatonState state) {
    if (out_.states.size() >= kMaxStates || out_.edges.size() >= kMaxEdges) {
        too_large_ = true;
        return dead_;
    }
    out_.states.push_back(state);
    return static_cast<uint32_t>(out_.states.size() - 1);
}

void Compiler::set_split(uint32_t state, const std::vector<uint32_t>& targets) {
    AutomatonState& s = out_.states[state];
    s.a = static_cast<uint32_t>(out_.targets.size());
    s.b = static_cast<uint32_t>(targets.size());
    out_.targets.insert(out_.targets.end(), targets.begin(), targets.end());
}

uint32_t Compiler::split(std::vector<uint32_t> targets) {
    std::erase(targets, dead_);
    if (targets.empty()) return dead_;
    if (targets.size() == 1) return targets[0];
    const uint32_t state = add({.op = Op::Split});
    if (state != dead_) set_split(state, targets);
    return state;
}

uint32_t Compiler::shift(std::span<const ByteEdge> edges) {
    const auto first = static_cast<uint32_t>(out_.edges.size());
    for (const ByteEdge& edge : edges)
        if (edge.to != dead_) out_.edges.push_back(edge);
    const auto n = static_cast<uint32_t>(out_.edges.size()) - first;
    return n == 0 ? dead_ : add({.op = Op::Shift, .a = first, .b = n});
}

uint32_t Compiler::emit_bytes(std::string_view text, uint32_t next) {
    for (size_t i = text.size(); i-- > 0 && next != dead_;) {
        const auto byte = static_cast<uint8_t>(text[i]);
        const ByteEdge edge{byte, byte, next};
        next = shift({&edge, 1});
    }
    return next;
}

uint32_t Compiler::emit_sequences(std::span<const ByteSequence> sequences, size_t depth, uint32_t next,
                                  std::map<std::string, uint32_t>& known) {
    if (sequences[0].n == depth) return next;
    std::string key;
    for (const ByteSequence& sequence : sequences) {
        for (size_t i = depth; i < sequence.n; i++)
            key += {static_cast<char>(sequence.bytes[i].lo), static_cast<char>(sequence.bytes[i].hi)};
        key += '/';
    }
    if (const auto found = known.find(key); found != known.end()) return found->second;
    std::vector<ByteEdge> edges;
    for (size_t from = 0; from < sequences.size();) {
        size_t to = from + 1;
        const ByteSequence::Range range = sequences[from].bytes[depth];
        while (to < sequences.size() && sequences[to].bytes[depth] == range) to++;
        edges.push_back(
            {range.lo, range.hi, emit_sequences(sequences.subspan(from, to - from), depth + 1, next, known)});
        from = to;
    }
    return known[key] = shift(edges);
}

uint32_t Compiler::emit_chars(const CharSet& set, uint32_t next) {
    std::vector<ByteSequence> sequences;
    for (const CharRange& range : set.ranges()) append_utf8(range.lo, range.hi, sequences);
    if (sequences.empty()) return dead_;
    std::map<std::string, uint32_t> known;
    return emit_sequences(sequences, 0, next, known);
}

uint32_t Compiler::emit_seq(const Expr& e, uint32_t next, Want want) {
    // Non-empty: any item may be the first non-empty one if all items before it are nullable.
    std::vector<uint32_t> entries;
    size_t n_nullable = 0;
    while (n_nullable < e.items.size() && analysis_.nullable(e.items[n_nullable])) n_nullable++;
    for (size_t i = e.items.size(); i-- > 0;) {
        if (want == Want::NonEmpty && i <= n_nullable) entries.push_back(emit(e.items[i], next, want));
        next = emit(e.items[i], next, Want::All);
    }
    return want == Want::NonEmpty ? split(std::move(entries)) : next;
}

/// A trie of sorted, distinct literals that agree in their first `depth` bytes, so that a long list of words
/// has one live state.
uint32_t Compiler::emit_literals(std::span<const std::string_view> literals, size_t depth, uint32_t next) {
    if (literals.size() == 1) return emit_bytes(literals[0].substr(depth), next);
    std::vector<ByteEdge> edges;
    const bool ends = literals[0].size() == depth;
    for (size_t from = ends; from < literals.size();) {
        const char byte = literals[from][depth];
        size_t to = from + 1;
        while (to < literals.size() && literals[to][depth] == byte) to++;
        const auto edge = static_cast<uint8_t>(byte);
        edges.push_back({edge, edge, emit_literals(literals.subspan(from, to - from), depth + 1, next)});
        from = to;
    }
    const uint32_t more = shift(edges);
    return ends ? split({more, next}) : more;
}

uint32_t Compiler::emit_alt(const Expr& e, uint32_t next, Want want) {
    constexpr size_t kMaxDepth = 1000;  // of the trie
    std::vector<uint32_t> targets;
    std::vector<std::string_view> literals;
    for (const ExprId item : e.items) {
        const Expr& way = program_.expr(item);
        if (way.kind == ExprKind::Bytes && program_.literal(way).size() <= kMaxDepth)
            literals.push_back(program_.literal(way));
        else
            targets.push_back(emit(item, next, want));
    }
    std::sort(literals.begin(), literals.end());
    literals.erase(std::unique(literals.begin(), literals.end()), literals.end());
    if (!literals.empty()) targets.push_back(emit_literals(literals, 0, next));
    return split(std::move(targets));
}

uint32_t Compiler::emit_star(ExprId body, uint32_t next) {
    const uint32_t head = add({.op = Op::Split});
    const uint32_t round = emit(body, head, Want::All);
    if (head != dead_) set_split(head, round == dead_ ? std::vector{next} : std::vector{round, next});
    return head;
}

uint32_t Compiler::emit_repeat(const Expr& e, uint32_t next, Want want) {
    if (analysis_.dead(e.index)) return want == Want::NonEmpty ? dead_ : next;
    const bool nullable = analysis_.nullable(e.index);
    // Empty iterations add nothing: only non-empty ones are counted, and none is required.
    const uint32_t min = nullable ? 0 : e.min;
    const Want body_want = nullable ? Want::NonEmpty : Want::All;
    const uint32_t needed = want == Want::NonEmpty ? std::max(min, 1u) : min;
    if (analysis_.expands(e)) {
        const uint32_t end = next;
        if (e.max == kUnbounded)
            next = emit_star(e.index, next);
        else
            for (uint32_t i = needed; i < e.max; i++) next = split({emit(e.index, next, body_want), end});
        for (uint32_t i = 0; i < needed; i++) next = emit(e.index, next, body_want);
        return next;
    }
    const auto loop = static_cast<uint32_t>(out_.loops.size());
    out_.loops.push_back({needed, e.max, 0, 0});
    const uint32_t test = add({.op = Op::LoopTest, .a = loop});
    const uint32_t body = emit(e.index, test, body_want);
    out_.loops[loop].test = test;
    out_.loops[loop].body = body;
    return add({.op = Op::LoopBegin, .a = loop, .b = next});
}

uint32_t Compiler::emit_rule(RuleId rule, uint32_t next, Want want) {
    if (analysis_.inlined(rule)) return emit(program_.rules()[rule].body, next, want);
    const auto [at, is_new] = variants_.try_emplace({rule, want}, static_cast<uint32_t>(wanted_.size()));
    if (is_new) wanted_.push_back({rule, want});
    const uint32_t state = add({.op = Op::Call, .a = at->second, .b = next});
    if (state != dead_) calls_.push_back(state);
    return state;
}

uint32_t Compiler::emit_dfa(const Expr& e, uint32_t next) {
    const ByteDfa& dfa = program_.byte_dfa(e);
    std::vector<uint32_t> entry(dfa.states.size()), body(dfa.states.size());
    for (size_t i = 0; i < dfa.states.size(); i++) {
        const bool moves = !dfa.states[i].edges.empty();
        body[i] = moves ? add({.op = Op::Shift, .free = e.free}) : dead_;
        entry[i] = dfa.states[i].accept ? split({body[i], next}) : body[i];
    }
    for (size_t i = 0; i < dfa.states.size() && !too_large_; i++) {
        if (body[i] == dead_) continue;
        AutomatonState& state = out_.states[body[i]];
        state.a = static_cast<uint32_t>(out_.edges.size());
        for (const ByteDfa::Edge& edge : dfa.states[i].edges)
            if (entry[edge.to] != dead_) out_.edges.push_back({edge.lo, edge.hi, entry[edge.to]});
        state.b = static_cast<uint32_t>(out_.edges.size()) - state.a;
    }
    return entry.empty() ? dead_ : entry[0];
}

MemberRules Compiler::member_rules(const Members& members) {
    MemberRules rules;
    rules.n_keys = static_cast<uint32_t>(members.keys.size());
    for (const Members::Key& key : members.keys) rules.required.push_back(key.required);
    rules.chains = members.chains;
    rules.places.resize(members.keys.size());
    for (uint32_t c = 0; c < members.chains.size(); c++) {
        const auto& chain = members.chains[c];
        std::vector<uint32_t> next(chain.size() + 1, static_cast<uint32_t>(chain.size()));
        for (size_t i = chain.size(); i-- > 0;) {
            next[i] = members.keys[chain[i]].required ? static_cast<uint32_t>(i) : next[i + 1];
            rules.places[chain[i]].push_back({c, static_cast<uint32_t>(i)});
        }
        rules.next_required.push_back(std::move(next));
    }
    rules.loose_bit.assign(members.keys.size(), kUnbounded);
    for (uint32_t key = 0; key < rules.n_keys; key++) {
        if (!rules.places[key].empty()) continue;
        rules.loose_bit[key] = static_cast<uint32_t>(rules.loose.size());
        rules.loose.push_back(key);
    }
    rules.has_open = !members.open.empty();
    rules.min = members.min;
    rules.max = members.max;
    return rules;
}

/// The trie of the literals [lo, hi), which agree in their first `depth` bytes. A state is entered only if
/// one of the keys below it may still come, so that no prefix of a key is a dead end.
uint32_t Compiler::emit_keys(const Members& members, size_t lo, size_t hi, size_t depth,
                             const std::vector<uint32_t>& values) {
    std::vector<uint32_t> ways;
    size_t at = lo;
    if (members.keys[lo].literal.size() == depth) {
        ways.push_back(add({.op = Op::Mark, .a = static_cast<uint32_t>(lo), .b = values[lo]}));
        at++;
    }
    std::vector<ByteEdge> edges;
    while (at < hi) {
        const char byte = members.keys[at].literal[depth];
        size_t to = at + 1;
        while (to < hi && members.keys[to].literal[depth] == byte) to++;
        size_t common = depth + 1;  // one state is enough for the common continuation, apart from the guard
        const std::string &first = members.keys[at].literal, &last = members.keys[to - 1].literal;
        while (common < first.size() && common < last.size() && first[common] == last[common]) common++;
        const uint32_t below = emit_keys(members, at, to, common, values);
        const uint32_t rest =
            emit_bytes(std::string_view(first).substr(depth + 1, common - depth - 1), below);
        const uint32_t guard =
            add({.op = Op::Guard, .a = static_cast<uint32_t>(at), .b = static_cast<uint32_t>(to), .c = rest});
        edges.push_back({static_cast<uint8_t>(byte), static_cast<uint8_t>(byte), guard});
        at = to;
    }
    if (!edges.empty()) ways.push_back(shift(edges));
    return split(std::move(ways));
}

/// The members without keys that can never be completed.
Members Compiler::live_members(const Members& all) const {
    Members live = all;
    std::erase_if(live.open, [&](const Members::Open& open) {
        return analysis_.dead(open.key) || analysis_.dead(open.value);
    });
    live.keys.clear();
    std::vector<uint32_t> index;
    for (const Members::Key& key : all.keys) {
        const bool dead = analysis_.dead(key.value);
        index.push_back(dead ? kUnbounded : static_cast<uint32_t>(live.keys.size()));
        if (!dead) live.keys.push_back(key);
    }
    for (auto& chain : live.chains) {
        for (uint32_t& key : chain) key = index[key];
        std::erase(chain, kUnbounded);
    }
    return live;
}

uint32_t Compiler::emit_members(const Members& all, uint32_t next) {
    const Members members = live_members(all);
    const auto spec = static_cast<uint32_t>(out_.members.size());
    out_.members.push_back(member_rules(members));
    const uint32_t close = add({.op = Op::MayClose, .b = emit(members.after, return_, Want::All)});
    const uint32_t separator = add({.op = Op::Split});
    const uint32_t begin_member = add({.op = Op::Split});
    std::vector<uint32_t> ways;
    if (!members.keys.empty()) {
        std::vector<uint32_t> values;
        std::map<ExprId, uint32_t> known;  // many keys often share few kinds of values
        for (const Members::Key& key : members.keys) {
            const auto [at, is_new] = known.try_emplace(key.value, 0);
            if (is_new) at->second = emit(key.value, separator, Want::All);
            values.push_back(at->second);
        }
        ways.push_back(add({.op = Op::Guard,
                            .a = 0,
                            .b = static_cast<uint32_t>(members.keys.size()),
                            .c = emit_keys(members, 0, members.keys.size(), 0, values)}));
    }
    for (const Members::Open& open : members.open) {
        const uint32_t value = emit(open.value, separator, Want::All);
        ways.push_back(add({.op = Op::MarkOpen, .b = emit(open.key, value, Want::All)}));
    }
    if (too_large_) return dead_;
    set_split(begin_member, ways);
    set_split(separator,
              {close, add({.op = Op::MayContinue, .b = emit(members.comma, begin_member, Want::All)})});
    const uint32_t first = split({close, add({.op = Op::MayContinue, .b = begin_member})});
    const uint32_t body = emit(members.before, first, Want::All);
    return add({.op = Op::MembersBegin, .a = spec, .b = next, .c = body});
}

uint32_t Compiler::emit(ExprId id, uint32_t next, Want want) {
    if (next == dead_ || too_large_ || analysis_.dead(id)) return dead_;
    const Expr& e = program_.expr(id);
    switch (e.kind) {
        case ExprKind::Empty:
            return want == Want::NonEmpty ? dead_ : next;
        case ExprKind::Never:
            return dead_;
        case ExprKind::Bytes:
            return emit_bytes(program_.literal(e), next);
        case ExprKind::Chars:
            return emit_chars(program_.charset(e), next);
        case ExprKind::Seq:
            return emit_seq(e, next, want);
        case ExprKind::Alt:
            return emit_alt(e, next, want);
        case ExprKind::Repeat:
            return emit_repeat(e, next, want);
        case ExprKind::Rule:
            return emit_rule(e.index, next, want);
        case ExprKind::Token:
            return add({.op = Op::Token, .a = e.index, .b = next});
        case ExprKind::Dfa:
            return emit_dfa(e, next);
        case ExprKind::Members:
            return emit_members(program_.member_spec(e), next);
    }
    return dead_;
}

void Compiler::resolve_calls() {
    for (const uint32_t call : calls_) out_.states[call].a = entries_[out_.states[call].a];
}

/// Tail calls need no frame, so that lists written as right recursion do not grow the stack.
void Compiler::shorten_tail_calls() {
    for (const uint32_t call : calls_) {
        AutomatonState& state = out_.states[call];
        if (out_.states[state.b].op != Op::Return) continue;
        const uint32_t target = state.a;
        state.op = Op::Split;
        set_split(call, {target});
    }
}

void Compiler::find_byte_classes() {
    std::array<bool, 257> starts{};
    starts[0] = true;
    for (const ByteEdge& edge : out_.edges) starts[edge.lo] = starts[edge.hi + 1u] = true;
    uint32_t n = 0;
    for (size_t byte = 0; byte < 256; byte++) {
        n += starts[byte];
        out_.byte_class[byte] = static_cast<uint8_t>(n - 1);
    }
    out_.n_classes = n;
}

Result<Automaton> Compiler::run() {
    add({.op = Op::Split});  // dead: a split without targets
    return_ = add({.op = Op::Return});
    variants_[{program_.root, Want::All}] = 0;
    wanted_.push_back({program_.root, Want::All});
    for (size_t i = 0; i < wanted_.size(); i++) {
        const auto [rule, want] = wanted_[i];
        entries_.push_back(emit(program_.rules()[rule].body, return_, want));
    }
    if (too_large_)
        return fail(ErrorCode::Unsupported,
                    "the grammar is too large: it needs more than %zu states or %zu edges", kMaxStates,
                    kMaxEdges);
    resolve_calls();
    shorten_tail_calls();
    find_byte_classes();
    out_.start = entries_[0];
    out_.tokens = program_.tokens();
    return std::move(out_);
}

}  // namespace

Result<Automaton> compile(const Program& program) {
    TSR_TRY(const Analysis analysis, Analysis::create(program));
    return Compiler(program, analysis).run();
}

}  // namespace tessera::grammar
