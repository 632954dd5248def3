// Thompson's construction and subsets for the language any* pattern any*. Anchors are epsilon edges that hold
// only before the first character or after the last. Next: scalar_string.cpp.
#include "src/grammar/char_dfa.h"

#include <algorithm>
#include <map>

#include "common/utf8.h"
#include "src/grammar/regex.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxNfaStates = 200'000;
constexpr size_t kMaxDfaStates = 30'000;
constexpr size_t kMaxDfaWork = 60'000'000;  // edges visited: about a second

constexpr uint32_t kNone = 0xFFFFFFFF;

enum Where : uint32_t { kInside = 0, kAtStart = 1, kAtEnd = 2 };

struct NfaState {
    std::vector<CharDfa::Edge> edges;
    std::vector<uint32_t> jumps;
    uint32_t at_start = kNone, at_end = kNone;  // epsilon edges of ^ and $
};

class Builder {
  public:
    explicit Builder(const Program& program) : program_(program) {}
    Result<CharDfa> run(ExprId pattern);

  private:
    using Set = std::vector<uint32_t>;

    uint32_t add() {
        nfa_.emplace_back();
        return static_cast<uint32_t>(nfa_.size() - 1);
    }
    void edge(uint32_t from, uint32_t lo, uint32_t hi, uint32_t to) {
        nfa_[from].edges.push_back({lo, hi, static_cast<int32_t>(to)});
    }
    uint32_t emit(ExprId id, uint32_t next);
    uint32_t emit_repeat(const Expr& e, uint32_t next);
    void close(Set& set, uint32_t where);
    Set step(const Set& set, uint32_t symbol);
    int32_t intern(Set set, uint32_t where);
    bool expand(size_t index);

    const Program& program_;
    std::vector<NfaState> nfa_;
    uint32_t found_ = 0;  // state after a match: accepts everything
    std::vector<uint32_t> seen_;
    uint32_t epoch_ = 0;
    std::map<Set, int32_t> ids_;
    std::vector<const Set*> sets_;
    CharDfa dfa_;
    size_t work_ = 0;
};

uint32_t Builder::emit_repeat(const Expr& e, uint32_t next) {
    const uint32_t end = next;
    if (e.max == kUnbounded) {
        const uint32_t head = add();
        const uint32_t round = emit(e.index, head);
        nfa_[head].jumps = {round, end};
        next = head;
    } else {
        for (uint32_t i = e.min; i < e.max && nfa_.size() < kMaxNfaStates; i++) {
            const uint32_t way = add();
            const uint32_t round = emit(e.index, next);
            nfa_[way].jumps = {round, end};
            next = way;
        }
    }
    for (uint32_t i = 0; i < e.min && nfa_.size() < kMaxNfaStates; i++) next = emit(e.index, next);
    return next;
}

uint32_t Builder::emit(ExprId id, uint32_t next) {
    const Expr& e = program_.expr(id);
    if (nfa_.size() >= kMaxNfaStates) return next;
    switch (e.kind) {
        case ExprKind::Bytes: {
            std::vector<uint32_t> chars;
            for (std::string_view text = program_.literal(e); !text.empty();) {
                const auto c = utf8::decode(text);
                chars.push_back(c.code_point);
                text.remove_prefix(c.n_bytes);
            }
            for (size_t i = chars.size(); i-- > 0;) {
                const uint32_t state = add();
                edge(state, chars[i], chars[i], next);
                next = state;
            }
            return next;
        }
        case ExprKind::Chars: {
            const uint32_t state = add();
            for (const CharRange& range : program_.charset(e).ranges()) {
                if (range.lo == kTextStart)
                    nfa_[state].at_start = next;
                else if (range.lo == kTextEnd)
                    nfa_[state].at_end = next;
                else
                    edge(state, range.lo, range.hi, next);
            }
            return state;
        }
        case ExprKind::Seq:
            for (size_t i = e.items.size(); i-- > 0;) next = emit(e.items[i], next);
            return next;
        case ExprKind::Alt: {
            const uint32_t state = add();
            for (const ExprId item : e.items) {
                const uint32_t way = emit(item, next);
                nfa_[state].jumps.push_back(way);
            }
            return state;
        }
        case ExprKind::Repeat:
            return emit_repeat(e, next);
        case ExprKind::Never:
            return add();
        default:
            return next;
    }
}

void Builder::close(Set& set, uint32_t where) {
    epoch_++;
    Set out;
    while (!set.empty()) {
        const uint32_t state = set.back();
        set.pop_back();
        if (seen_[state] == epoch_) continue;
        seen_[state] = epoch_;
        out.push_back(state);
        const NfaState& s = nfa_[state];
        set.insert(set.end(), s.jumps.begin(), s.jumps.end());
        if ((where & kAtStart) && s.at_start != kNone) set.push_back(s.at_start);
        if ((where & kAtEnd) && s.at_end != kNone) set.push_back(s.at_end);
    }
    if (seen_[found_] == epoch_) {
        set = {found_};
        return;
    }
    std::erase_if(out,
                  [&](uint32_t state) { return nfa_[state].edges.empty() && nfa_[state].at_end == kNone; });
    std::sort(out.begin(), out.end());
    set = std::move(out);
}

Builder::Set Builder::step(const Set& set, uint32_t symbol) {
    Set next;
    for (const uint32_t state : set)
        for (const CharDfa::Edge& e : nfa_[state].edges)
            if (e.lo <= symbol && symbol <= e.hi) next.push_back(static_cast<uint32_t>(e.to));
    close(next, kInside);
    return next;
}

int32_t Builder::intern(Set set, uint32_t where) {
    if (set.empty()) return kDeadState;
    Set at_end = set;
    close(at_end, where | kAtEnd);
    const auto [at, is_new] = ids_.try_emplace(std::move(set), static_cast<int32_t>(dfa_.states.size()));
    if (is_new) {
        sets_.push_back(&at->first);
        dfa_.states.push_back({{}, at_end == Set{found_}});
    }
    return at->second;
}

bool Builder::expand(size_t index) {
    const Set& set = *sets_[index];
    std::vector<uint32_t> cuts;
    for (const uint32_t state : set) {
        for (const CharDfa::Edge& e : nfa_[state].edges) {
            cuts.push_back(e.lo);
            cuts.push_back(e.hi + 1);
        }
    }
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    work_ += cuts.size() * set.size() + 1;
    for (size_t i = 0; i + 1 < cuts.size(); i++) {
        const int32_t to = intern(step(set, cuts[i]), kInside);
        if (to == kDeadState) continue;
        auto& edges = dfa_.states[index].edges;
        if (!edges.empty() && edges.back().to == to && edges.back().hi + 1 == cuts[i])
            edges.back().hi = cuts[i + 1] - 1;
        else
            edges.push_back({cuts[i], cuts[i + 1] - 1, to});
    }
    return work_ <= kMaxDfaWork && dfa_.states.size() <= kMaxDfaStates;
}

Result<CharDfa> Builder::run(ExprId pattern) {
    found_ = add();
    edge(found_, 0, kMaxCodePoint, found_);
    const uint32_t body = emit(pattern, found_);
    const uint32_t prefix = add();
    edge(prefix, 0, kMaxCodePoint, prefix);
    nfa_[prefix].jumps = {body};
    const auto too_large = [] {
        return fail(ErrorCode::Unsupported,
                    "the pattern needs too many states; counted repetitions of long parts and "
                    "many alternatives after '.*' are what costs most");
    };
    if (nfa_.size() >= kMaxNfaStates) return too_large();
    seen_.assign(nfa_.size(), 0);
    Set first = {prefix};
    close(first, kAtStart);
    // Distinct from an equal set later in the text, where ^ does not hold.
    if (first != Set{found_}) first.push_back(add());
    seen_.resize(nfa_.size());
    intern(std::move(first), kAtStart);
    for (size_t i = 0; i < sets_.size(); i++)
        if (!expand(i)) return too_large();
    return std::move(dfa_);
}

}  // namespace

int32_t CharDfa::next(int32_t state, uint32_t code_point) const {
    if (state < 0) return kDeadState;
    const auto& edges = states[static_cast<size_t>(state)].edges;
    const auto at = std::lower_bound(edges.begin(), edges.end(), code_point,
                                     [](const Edge& edge, uint32_t c) { return edge.hi < c; });
    return at != edges.end() && at->lo <= code_point ? at->to : kDeadState;
}

bool CharDfa::matches(std::string_view text) const {
    int32_t state = 0;
    while (!text.empty() && state != kDeadState) {
        const auto c = utf8::decode(text);
        state = next(state, c.code_point);
        text.remove_prefix(c.n_bytes);
    }
    return accepts(state);
}

Result<CharDfa> search_dfa(const Program& program, ExprId pattern) { return Builder(program).run(pattern); }

CharDfa literal_dfa(const std::vector<std::string>& texts) {
    CharDfa dfa;
    dfa.states.emplace_back();
    std::map<std::pair<int32_t, uint32_t>, int32_t> edges;
    for (std::string_view text : texts) {
        int32_t state = 0;
        while (!text.empty()) {
            const auto c = utf8::decode(text);
            text.remove_prefix(c.n_bytes);
            const auto [at, is_new] =
                edges.try_emplace({state, c.code_point}, static_cast<int32_t>(dfa.states.size()));
            if (is_new) dfa.states.emplace_back();
            state = at->second;
        }
        dfa.states[static_cast<size_t>(state)].accept = true;
    }
    for (const auto& [from, to] : edges)
        dfa.states[static_cast<size_t>(from.first)].edges.push_back({from.second, from.second, to});
    return dfa;
}

}  // namespace tessera::grammar
