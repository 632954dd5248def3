#pragma once
// What schemas say about strings and numbers, and the texts that satisfy it. Internal to src/grammar.
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/expected.h"
#include "src/grammar/char_dfa.h"
#include "src/grammar/formula.h"
#include "src/grammar/program.h"

namespace tessera::grammar {

/// A decimal number of any precision.
struct Decimal {
    bool negative = false;
    std::string integer = "0";  ///< without leading zeros
    std::string fraction;       ///< without trailing zeros

    /// From the text of a JSON number; nothing where it has more than a few thousand digits.
    static std::optional<Decimal> parse(std::string_view text);
    bool is_zero() const { return integer == "0" && fraction.empty(); }
    bool is_integer() const { return fraction.empty(); }
    std::string text() const;
};

/// A text as a JSON string: itself, with the shortest escapes where JSON requires one.
std::string quote_json(std::string_view text);

/// Formulas about strings.
class StringLanguage {
  public:
    explicit StringLanguage(Formulas& formulas) : formulas_(&formulas) {}

    /// A text in which the pattern is found; fails where the pattern is refused.
    Result<FormulaId> pattern(const std::string& regex);
    FormulaId one_of(std::vector<std::string> texts);
    /// At least n code points.
    FormulaId at_least(uint32_t n);

    bool holds(FormulaId f, std::string_view text) const;
    /// The texts, where the formula names all that can be.
    std::optional<std::vector<std::string>> enumerate(FormulaId f) const;
    /// JSON strings of the texts; Program::never() where there are none.
    Result<ExprId> emit(FormulaId f, Program& program);
    /// Any JSON string, with every escape.
    ExprId any(Program& program);
    /// The texts as they are, without those that hold one of `forbidden`, have control characters other than
    /// tab and line feed, or, where `no_outer_lines`, begin or end with a line feed.
    Result<ExprId> emit_plain(FormulaId f, const std::vector<std::string>& forbidden, bool no_outer_lines,
                              Program& program);

  private:
    struct Atom {
        enum class Kind : uint8_t { Pattern, OneOf, AtLeast } kind;
        std::shared_ptr<const CharDfa> dfa;
        std::vector<std::string> texts;
        uint32_t n = 0;
    };
    struct Bounds {
        uint32_t min = 0, max = kUnbounded;
    };
    FormulaId add(Atom atom);
    bool only_length(FormulaId f, Bounds& bounds) const;
    ExprId emit_length(const Bounds& bounds, Program& program);
    ExprId any_char(Program& program);
    Result<CharDfa> product(FormulaId f);
    /// Counts the states of one more automaton; fails where all of them together are too many.
    Result<void> charge(size_t n_states);

    Formulas* formulas_;
    std::vector<Atom> atoms_;
    std::map<std::string, FormulaId> patterns_;
    std::map<uint32_t, FormulaId> lengths_;
    std::optional<ExprId> any_, any_char_;
    size_t n_states_ = 0;
};

/// Formulas about numbers.
class NumberLanguage {
  public:
    explicit NumberLanguage(Formulas& formulas) : formulas_(&formulas) {}

    FormulaId integer();
    FormulaId at_least(const Decimal& bound);
    FormulaId above(const Decimal& bound);
    FormulaId equal(const Decimal& value);
    /// Fails where the step has too many digits.
    Result<FormulaId> multiple_of(const Decimal& step);

    bool holds(FormulaId f, std::string_view number) const;
    std::optional<std::vector<std::string>> enumerate(FormulaId f) const;
    /// JSON numbers, without exponent unless any number will do; Program::never() where there are none.
    Result<ExprId> emit(FormulaId f, Program& program);

  private:
    struct Atom {
        enum class Kind : uint8_t { Integer, AtLeast, Above, Equal, Multiple } kind;
        Decimal value;
        uint64_t modulus = 0;  // Multiple: of the number times 10^digits
        uint32_t digits = 0;
    };
    using State = std::vector<uint64_t>;  // phase, sign, then one element an atom
    FormulaId add(Atom atom);
    State start(const std::vector<uint32_t>& atoms) const;
    std::optional<State> step(const State& state, char c, const std::vector<uint32_t>& atoms) const;
    bool accepts(FormulaId f, const State& state, const std::vector<uint32_t>& atoms) const;
    Result<ByteDfa> explore(FormulaId f) const;

    Formulas* formulas_;
    std::vector<Atom> atoms_;
};

/// Removes the states from which nothing is accepted; empty where that is the start.
void trim(ByteDfa& dfa);

}  // namespace tessera::grammar
