// String schemas as automata: patterns, lengths and sets of texts become DFAs over code points, whose product
// is accepting where the formula holds. The product is converted to bytes of JSON with one spelling per
// character, so that a key or an enum member has one spelling. Strings limited only in length are counted on
// the stack and keep all escapes. Some formats of tool calls have unquoted texts, which are written without
// escapes. Next: goals.cpp, which builds the formulas.
#include <algorithm>
#include <map>
#include <set>

#include "common/strings.h"
#include "common/utf8.h"
#include "src/grammar/regex.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxProductStates = 60'000;
constexpr size_t kMaxByteStates = 600'000;
constexpr size_t kMaxStatesInAll = 200'000;  // per schema: about two seconds

const char* short_escape(uint32_t c) {
    switch (c) {
        case '"':
            return "\\\"";
        case '\\':
            return "\\\\";
        case '\b':
            return "\\b";
        case '\f':
            return "\\f";
        case '\n':
            return "\\n";
        case '\r':
            return "\\r";
        case '\t':
            return "\\t";
        default:
            return nullptr;
    }
}

bool needs_escape(uint32_t c) { return c < 0x20 || c == '"' || c == '\\'; }

/// Removes edges to states that cannot reach an accepting one; removes all states if the start is one of
/// them.
template <class Dfa>
void drop_dead_ends(Dfa& dfa) {
    std::vector<std::vector<uint32_t>> sources(dfa.states.size());
    std::vector<bool> live(dfa.states.size());
    std::vector<uint32_t> work;
    for (uint32_t i = 0; i < dfa.states.size(); i++) {
        for (const auto& edge : dfa.states[i].edges) sources[static_cast<size_t>(edge.to)].push_back(i);
        if (dfa.states[i].accept) work.push_back(i);
    }
    while (!work.empty()) {
        const uint32_t state = work.back();
        work.pop_back();
        if (live[state]) continue;
        live[state] = true;
        work.insert(work.end(), sources[state].begin(), sources[state].end());
    }
    if (dfa.states.empty() || !live[0]) {
        dfa.states.clear();
        return;
    }
    for (auto& state : dfa.states)
        std::erase_if(state.edges, [&](const auto& edge) { return !live[static_cast<size_t>(edge.to)]; });
}

/// Converts edges of code points to bytes of a JSON string or of unquoted text.
class Speller {
  public:
    explicit Speller(bool is_json) : is_json_(is_json) {}

    Result<ByteDfa> run(const CharDfa& dfa) {
        first_ = 2;
        out_.states.resize(2 + dfa.states.size());
        if (is_json_) out_.states[0].edges = {{'"', '"', first_}};
        out_.states[kEnd].accept = true;
        for (size_t i = 0; i < dfa.states.size(); i++) {
            spell(first_ + static_cast<uint32_t>(i), dfa.states[i]);
            if (out_.states.size() > kMaxByteStates)
                return fail(ErrorCode::Unsupported,
                            "the patterns, lengths and names of this string together need too "
                            "many states");
        }
        if (!is_json_) out_.states[0].edges = out_.states[first_].edges;  // the caller handles the empty text
        trim(out_);
        return std::move(out_);
    }

  private:
    static constexpr uint32_t kEnd = 1;
    struct Piece {
        ByteSequence bytes;
        uint32_t to;
    };

    uint32_t below(std::span<const Piece> pieces, size_t depth) {
        if (pieces[0].bytes.n == depth) return pieces[0].to;
        std::string key;
        for (const Piece& piece : pieces) {
            for (size_t i = depth; i < piece.bytes.n; i++)
                key +=
                    {static_cast<char>(piece.bytes.bytes[i].lo), static_cast<char>(piece.bytes.bytes[i].hi)};
            key += strf("/%u/", piece.to);
        }
        if (const auto found = known_.find(key); found != known_.end()) return found->second;
        auto edges = group(pieces, depth);
        const uint32_t state = add();
        out_.states[state].edges = std::move(edges);
        return known_[key] = state;
    }

    std::vector<ByteDfa::Edge> group(std::span<const Piece> pieces, size_t depth) {
        std::vector<ByteDfa::Edge> edges;
        for (size_t from = 0; from < pieces.size();) {
            const auto range = pieces[from].bytes.bytes[depth];
            size_t to = from + 1;
            while (to < pieces.size() && pieces[to].bytes.n > depth && pieces[to].bytes.bytes[depth] == range)
                to++;
            edges.push_back({range.lo, range.hi, below(pieces.subspan(from, to - from), depth + 1)});
            from = to;
        }
        return edges;
    }

    uint32_t add() {
        out_.states.emplace_back();
        return static_cast<uint32_t>(out_.states.size() - 1);
    }

    void spell_escape(std::string_view escape, uint32_t from, uint32_t to) {
        for (size_t i = 0; i < escape.size(); i++) {
            const auto byte = static_cast<uint8_t>(escape[i]);
            uint32_t next = to;
            if (i + 1 < escape.size()) {
                auto& edges = out_.states[from].edges;
                const auto known = std::find_if(edges.begin(), edges.end(), [&](const ByteDfa::Edge& e) {
                    return e.lo == byte && e.hi == byte;
                });
                if (known != edges.end()) {
                    from = known->to;
                    continue;
                }
                next = add();
            }
            out_.states[from].edges.push_back({byte, byte, next});
            from = next;
        }
    }

    void spell(uint32_t at, const CharDfa::State& state) {
        std::vector<Piece> pieces;
        std::vector<ByteSequence> sequences;
        for (const CharDfa::Edge& edge : state.edges) {
            const uint32_t to = first_ + static_cast<uint32_t>(edge.to);
            uint32_t lo = edge.lo;
            while (lo <= edge.hi) {
                if (is_json_ && needs_escape(lo)) {
                    escapes_.push_back({lo++, to});
                    continue;
                }
                uint32_t hi = edge.hi;
                if (is_json_ && lo < '"') hi = std::min(hi, uint32_t{'"'} - 1);
                if (is_json_ && lo > '"' && lo < '\\') hi = std::min(hi, uint32_t{'\\'} - 1);
                sequences.clear();
                append_utf8(lo, hi, sequences);
                for (const ByteSequence& sequence : sequences) pieces.push_back({sequence, to});
                lo = hi + 1;
            }
        }
        auto edges = group(pieces, 0);
        if (state.accept && is_json_) edges.push_back({'"', '"', kEnd});
        out_.states[at].accept = state.accept && !is_json_;
        out_.states[at].edges = std::move(edges);
        for (const auto& [c, to] : escapes_) {
            const char* escape = short_escape(c);
            spell_escape(escape ? escape : strf("\\u%04x", c), at, to);
        }
        escapes_.clear();
    }

    bool is_json_;
    ByteDfa out_;
    uint32_t first_ = 0;
    std::map<std::string, uint32_t> known_;
    std::vector<std::pair<uint32_t, uint32_t>> escapes_;
};

}  // namespace

void trim(ByteDfa& dfa) { drop_dead_ends(dfa); }

std::string quote_json(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        const auto byte = static_cast<uint8_t>(c);
        if (const char* escape = short_escape(byte))
            out += escape;
        else if (byte < 0x20)
            out += strf("\\u%04x", byte);
        else
            out += c;
    }
    return out + '"';
}

Result<void> StringLanguage::charge(size_t n_states) {
    n_states_ += n_states;
    if (n_states_ <= kMaxStatesInAll) return {};
    return fail(ErrorCode::Unsupported,
                "the patterns, formats and lengths of this schema need too many states");
}

FormulaId StringLanguage::add(Atom atom) {
    atoms_.push_back(std::move(atom));
    return formulas_->atom(static_cast<uint32_t>(atoms_.size() - 1));
}

Result<FormulaId> StringLanguage::pattern(const std::string& regex) {
    if (const auto known = patterns_.find(regex); known != patterns_.end()) return known->second;
    Program scratch;
    TSR_TRY(const ExprId expr, parse_regex(regex, RegexUse::Search, scratch));
    TSR_TRY(CharDfa dfa, search_dfa(scratch, expr));
    TSR_TRY_VOID(charge(dfa.states.size()));
    const bool everything = dfa.states.size() == 1 && dfa.states[0].accept &&
                            dfa.states[0].edges.size() == 1 && dfa.states[0].edges[0].lo == 0 &&
                            dfa.states[0].edges[0].hi == kMaxCodePoint;
    if (everything) return patterns_[regex] = Formulas::kTrue;
    return patterns_[regex] = add({Atom::Kind::Pattern, std::make_shared<CharDfa>(std::move(dfa)), {}});
}

FormulaId StringLanguage::one_of(std::vector<std::string> texts) {
    if (texts.empty()) return Formulas::kFalse;
    std::sort(texts.begin(), texts.end());
    texts.erase(std::unique(texts.begin(), texts.end()), texts.end());
    auto dfa = std::make_shared<CharDfa>(literal_dfa(texts));
    return add({Atom::Kind::OneOf, std::move(dfa), std::move(texts)});
}

FormulaId StringLanguage::at_least(uint32_t n) {
    if (n == 0) return Formulas::kTrue;
    const auto [at, is_new] = lengths_.try_emplace(n, 0);
    if (is_new) at->second = add({Atom::Kind::AtLeast, nullptr, {}, n});
    return at->second;
}

bool StringLanguage::holds(FormulaId f, std::string_view text) const {
    return formulas_->evaluate(f, [&](uint32_t index) {
        const Atom& atom = atoms_[index];
        if (atom.kind != Atom::Kind::AtLeast) return atom.dfa->matches(text);
        const auto is_start = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
        return static_cast<size_t>(std::count_if(text.begin(), text.end(), is_start)) >= atom.n;
    });
}

std::optional<std::vector<std::string>> StringLanguage::enumerate(FormulaId f) const {
    std::vector<uint32_t> atoms;
    const auto is_set = [&](uint32_t atom) { return atoms_[atom].kind == Atom::Kind::OneOf; };
    if (!formulas_->implied_atoms(f, is_set, atoms)) return std::nullopt;
    std::vector<std::string> texts;
    std::set<std::string_view> seen;
    for (const uint32_t atom : atoms)
        for (const std::string& text : atoms_[atom].texts)
            if (seen.insert(text).second && holds(f, text)) texts.push_back(text);
    return texts;
}

bool StringLanguage::only_length(FormulaId f, Bounds& bounds) const {
    const Formulas::Node& n = formulas_->node(f);
    switch (n.kind) {
        case Formulas::Kind::True:
            return true;
        case Formulas::Kind::And:
            return std::all_of(n.items.begin(), n.items.end(),
                               [&](FormulaId item) { return only_length(item, bounds); });
        case Formulas::Kind::Atom:
            if (atoms_[n.atom].kind != Atom::Kind::AtLeast) return false;
            bounds.min = std::max(bounds.min, atoms_[n.atom].n);
            return true;
        case Formulas::Kind::Not: {
            const Formulas::Node& inner = formulas_->node(n.items[0]);
            if (inner.kind != Formulas::Kind::Atom || atoms_[inner.atom].kind != Atom::Kind::AtLeast)
                return false;
            bounds.max = std::min(bounds.max, atoms_[inner.atom].n - 1);
            return true;
        }
        default:
            return false;
    }
}

/// One character of a JSON string in any spelling.
ExprId StringLanguage::any_char(Program& program) {
    if (any_char_) return *any_char_;
    const auto hex_of = [&](CharSet set) { return program.chars(std::move(set)); };
    const ExprId hex = hex_of({{'0', '9'}, {'A', 'F'}, {'a', 'f'}});
    const ExprId d = hex_of({{'d', 'd'}, {'D', 'D'}});
    const ExprId plain = program.chars(CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement());
    const ExprId simple = program.chars(
        {{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
    // A lone surrogate is not a character, although RFC 8259 does not forbid it.
    const ExprId not_surrogate = program.alt(
        {program.seq({hex_of({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}}), hex, hex, hex}),
         program.seq({d, hex_of({{'0', '7'}}), hex, hex})});
    const ExprId pair = program.seq({d, hex_of({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex, hex,
                                     program.bytes("\\u"), d, hex_of({{'C', 'F'}, {'c', 'f'}}), hex, hex});
    const ExprId escape =
        program.alt({simple, program.seq({program.bytes("u"), program.alt({not_surrogate, pair})})});
    any_char_ = program.alt({plain, program.seq({program.bytes("\\"), escape})});
    return *any_char_;
}

ExprId StringLanguage::emit_length(const Bounds& bounds, Program& program) {
    if (bounds.min > bounds.max) return program.never();
    return program.seq({program.bytes("\""), program.repeat(any_char(program), bounds.min, bounds.max),
                        program.bytes("\"")});
}

ExprId StringLanguage::any(Program& program) {
    if (!any_) {
        const RuleId rule = program.add_rule("string");
        program.set_body(rule, emit_length({}, program));
        any_ = program.rule(rule);
    }
    return *any_;
}

Result<CharDfa> StringLanguage::product(FormulaId f) {
    std::vector<uint32_t> atoms;
    formulas_->collect_atoms(f, atoms);
    using State = std::vector<int32_t>;
    std::map<State, int32_t> ids;
    std::vector<const State*> states;
    CharDfa out;
    const auto intern = [&](State state) {
        const auto [at, is_new] = ids.try_emplace(std::move(state), static_cast<int32_t>(out.states.size()));
        if (is_new) {
            states.push_back(&at->first);
            const bool accept = formulas_->evaluate(f, [&](uint32_t index) {
                const auto i =
                    static_cast<size_t>(std::find(atoms.begin(), atoms.end(), index) - atoms.begin());
                const int32_t s = at->first[i];
                const Atom& atom = atoms_[index];
                return atom.kind == Atom::Kind::AtLeast ? s >= static_cast<int32_t>(atom.n)
                                                        : atom.dfa->accepts(s);
            });
            out.states.push_back({{}, accept});
        }
        return at->second;
    };
    intern(State(atoms.size(), 0));
    for (size_t at = 0; at < states.size(); at++) {
        if (states.size() > kMaxProductStates)
            return fail(ErrorCode::Unsupported,
                        "the patterns, lengths and names of this string together need too many states");
        const State& state = *states[at];
        std::vector<uint32_t> cuts = {0, kMaxCodePoint + 1};
        for (size_t i = 0; i < atoms.size(); i++) {
            if (state[i] < 0 || atoms_[atoms[i]].kind == Atom::Kind::AtLeast) continue;
            for (const CharDfa::Edge& edge :
                 atoms_[atoms[i]].dfa->states[static_cast<size_t>(state[i])].edges)
                cuts.insert(cuts.end(), {edge.lo, edge.hi + 1});
        }
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        for (size_t c = 0; c + 1 < cuts.size(); c++) {
            State next(atoms.size());
            for (size_t i = 0; i < atoms.size(); i++) {
                const Atom& atom = atoms_[atoms[i]];
                next[i] = atom.kind == Atom::Kind::AtLeast
                              ? std::min(state[i] + 1, static_cast<int32_t>(atom.n))
                              : atom.dfa->next(state[i], cuts[c]);
            }
            const int32_t to = intern(std::move(next));
            auto& edges = out.states[at].edges;
            if (!edges.empty() && edges.back().to == to)
                edges.back().hi = cuts[c + 1] - 1;
            else
                edges.push_back({cuts[c], cuts[c + 1] - 1, to});
        }
    }
    TSR_TRY_VOID(charge(states.size()));
    drop_dead_ends(out);  // before the edges to them are expanded into bytes
    return out;
}

Result<ExprId> StringLanguage::emit(FormulaId f, Program& program) {
    if (f == Formulas::kFalse) return program.never();
    if (f == Formulas::kTrue) return any(program);
    Bounds bounds;
    if (only_length(f, bounds)) return emit_length(bounds, program);
    CharDfa dfa;
    if (const auto texts = enumerate(f)) {
        dfa = literal_dfa(*texts);
    } else {
        TSR_TRY(dfa, product(f));
    }
    if (dfa.states.empty()) return program.never();
    TSR_TRY(ByteDfa bytes, Speller(true).run(dfa));
    return bytes.states.empty() ? program.never() : program.dfa(std::move(bytes));
}

Result<ExprId> StringLanguage::emit_plain(FormulaId f, const std::vector<std::string>& forbidden,
                                          bool no_outer_lines, Program& program) {
    if (f == Formulas::kFalse) return program.never();
    constexpr uint32_t kCountedByStates = 500;
    Bounds bounds;
    if (f != Formulas::kTrue && only_length(f, bounds) &&
        (bounds.min > kCountedByStates || (bounds.max != kUnbounded && bounds.max > kCountedByStates))) {
        // Counted on the stack, without the first characters of forbidden texts.
        CharSet none = {{0, 8}, {0xB, 0x1F}, {0x7F, 0x7F}};
        if (no_outer_lines) none.add('\n', '\n');
        for (const std::string& text : forbidden) {
            const auto first = static_cast<uint8_t>(text[0]);
            none.add(first, first);
        }
        return program.repeat(program.chars(none.complement()), bounds.min, bounds.max);
    }
    std::vector<FormulaId> all = {f};
    const auto exclude = [&](const std::string& regex) -> Result<void> {
        TSR_TRY(const FormulaId found, pattern(regex));
        all.push_back(formulas_->negate(found));
        return {};
    };
    TSR_TRY_VOID(exclude("[\\x00-\\x08\\x0B-\\x1F\\x7F]"));
    if (no_outer_lines) TSR_TRY_VOID(exclude("^\\n|\\n$"));
    for (const std::string& text : forbidden) {
        std::string regex;
        for (const char c : text) {
            if (std::string_view("^$.*+?()[]{}|\\").find(c) != std::string_view::npos) regex += '\\';
            regex += c;
        }
        TSR_TRY_VOID(exclude(regex));
    }
    CharDfa dfa;
    const FormulaId plain = formulas_->all(std::move(all));
    if (const auto texts = enumerate(plain)) {
        dfa = literal_dfa(*texts);
    } else {
        TSR_TRY(dfa, product(plain));
    }
    if (dfa.states.empty()) return program.never();
    const bool may_be_empty = dfa.states[0].accept;
    TSR_TRY(ByteDfa bytes, Speller(false).run(dfa));
    const ExprId text = bytes.states.empty() ? program.never() : program.dfa(std::move(bytes));
    return may_be_empty ? program.optional(text) : text;
}

}  // namespace tessera::grammar
