#pragma once
// Boolean formulas over numbered atoms: the conditions of a schema on strings or on numbers, before they
// become automata.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::grammar {

using FormulaId = uint32_t;

/// Owns all formulas. Formulas are simplified when built, but equal ones are not shared.
class Formulas {
  public:
    enum class Kind : uint8_t { False, True, Atom, Not, And, Or };
    struct Node {
        Kind kind;
        uint32_t atom = 0;
        std::vector<FormulaId> items = {};
    };
    static constexpr FormulaId kFalse = 0, kTrue = 1;

    Formulas() : nodes_{{Kind::False}, {Kind::True}} {}

    FormulaId constant(bool value) const { return value ? kTrue : kFalse; }
    FormulaId atom(uint32_t atom) { return add({Kind::Atom, atom}); }
    FormulaId negate(FormulaId f) {
        if (f <= kTrue) return constant(f == kFalse);
        if (nodes_[f].kind == Kind::Not) return nodes_[f].items[0];
        return add({Kind::Not, 0, {f}});
    }
    FormulaId all(std::vector<FormulaId> items) { return combine(Kind::And, kTrue, std::move(items)); }
    FormulaId any(std::vector<FormulaId> items) { return combine(Kind::Or, kFalse, std::move(items)); }
    FormulaId exactly_one(const std::vector<FormulaId>& items) {
        std::vector<FormulaId> ways;
        for (size_t i = 0; i < items.size(); i++) {
            std::vector<FormulaId> way = {items[i]};
            for (size_t j = 0; j < items.size(); j++)
                if (j != i) way.push_back(negate(items[j]));
            ways.push_back(all(std::move(way)));
        }
        return any(std::move(ways));
    }

    const Node& node(FormulaId id) const { return nodes_[id]; }
    size_t size() const { return nodes_.size(); }

    /// The value of the formula; `truth(atom)` is the value of an atom.
    template <class Truth>
    bool evaluate(FormulaId id, const Truth& truth) const {
        const Node& n = nodes_[id];
        const auto holds = [&](FormulaId item) { return evaluate(item, truth); };
        switch (n.kind) {
            case Kind::False:
                return false;
            case Kind::True:
                return true;
            case Kind::Atom:
                return truth(n.atom);
            case Kind::Not:
                return !holds(n.items[0]);
            case Kind::And:
                return std::all_of(n.items.begin(), n.items.end(), holds);
            case Kind::Or:
                return std::any_of(n.items.begin(), n.items.end(), holds);
        }
        return false;
    }

    void collect_atoms(FormulaId id, std::vector<uint32_t>& out) const {
        const Node& n = nodes_[id];
        if (n.kind == Kind::Atom && std::find(out.begin(), out.end(), n.atom) == out.end())
            out.push_back(n.atom);
        for (const FormulaId item : n.items) collect_atoms(item, out);
    }

    /// Appends atoms that pass `wanted`, of which at least one is true whenever the formula is. Returns false
    /// if there is no such set.
    template <class Wanted>
    bool implied_atoms(FormulaId id, const Wanted& wanted, std::vector<uint32_t>& out) const {
        const Node& n = nodes_[id];
        switch (n.kind) {
            case Kind::Atom:
                if (!wanted(n.atom)) return false;
                out.push_back(n.atom);
                return true;
            case Kind::And:
                for (const FormulaId item : n.items) {
                    std::vector<uint32_t> atoms;
                    if (!implied_atoms(item, wanted, atoms)) continue;
                    out.insert(out.end(), atoms.begin(), atoms.end());
                    return true;
                }
                return false;
            case Kind::Or:
                return std::all_of(n.items.begin(), n.items.end(),
                                   [&](FormulaId item) { return implied_atoms(item, wanted, out); });
            case Kind::False:
                return true;
            case Kind::True:
            case Kind::Not:
                return false;
        }
        return false;
    }

  private:
    FormulaId add(Node node) {
        nodes_.push_back(std::move(node));
        return static_cast<FormulaId>(nodes_.size() - 1);
    }
    FormulaId combine(Kind kind, FormulaId neutral, std::vector<FormulaId> items) {
        const FormulaId dominant = 1 - neutral;
        std::vector<FormulaId> flat;
        for (const FormulaId item : items) {
            if (item == dominant) return dominant;
            if (item == neutral) continue;
            if (nodes_[item].kind == kind)
                flat.insert(flat.end(), nodes_[item].items.begin(), nodes_[item].items.end());
            else
                flat.push_back(item);
        }
        if (flat.empty()) return neutral;
        if (flat.size() == 1) return flat[0];
        return add({kind, 0, std::move(flat)});
    }

    std::vector<Node> nodes_;
};

}  // namespace tessera::grammar
