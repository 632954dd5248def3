#pragma once
// Conditions of schemas on strings and numbers, and the texts that satisfy them. Internal to src/grammar.
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

    /// From the text of a JSON number; nothing if it has too many digits (about 1000).
    static std::optional<Decimal> parse(std::string_view text);
    bool is_zero() const { return integer == "0" && fraction.empty(); }
    bool is_integer() const { return fraction.empty(); }
    std::string text() const;
};

/// The text as a JSON string, with the shortest escapes and only where JSON requires one.
std::string quote_json(std::string_view text);

/// Formulas about strings.
class StringLanguage {
  public:
    explicit StringLanguage(Formulas& formulas) : formulas_(&formulas) {}

    /// Texts in which the pattern is found. Errors: the pattern is invalid or not supported.
    Result<FormulaId> pattern(const std::string& regex);
    FormulaId one_of(std::vector<std::string> texts);
    /// At least n code points.
    FormulaId at_least(uint32_t n);

    bool holds(FormulaId f, std::string_view text) const;
    /// The texts that satisfy the formula, if it lists them.
    std::optional<std::vector<std::string>> enumerate(FormulaId f) const;
    /// The texts as JSON strings; Program::never() if there are none.
    Result<ExprId> emit(FormulaId f, Program& program);
    /// Any JSON string, with every escape.
    ExprId any(Program& program);
    /// The texts without quotes and escapes, except those that contain one of `forbidden` or a control
    /// character other than tab and line feed, or, with `no_outer_lines`, begin or end with a line feed.
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
    /// Counts the states of one more automaton. Errors: too many states in all.
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
    /// Errors: the step has too many digits.
    Result<FormulaId> multiple_of(const Decimal& step);

    bool holds(FormulaId f, std::string_view number) const;
    std::optional<std::vector<std::string>> enumerate(FormulaId f) const;
    /// JSON numbers; Program::never() if there are none. Integers have neither a point nor an exponent and
    /// at most 16 digits, other numbers at most 21 on either side of the point, unless a bound or value of
    /// the formula is longer. Only formulas that hold for every number allow an exponent.
    Result<ExprId> emit(FormulaId f, Program& program);

  private:
    struct Atom {
        enum class Kind : uint8_t { Integer, AtLeast, Above, Equal, Multiple } kind;
        Decimal value;
        uint64_t modulus = 0;  // Multiple: modulus of the number times 10^digits
        uint32_t digits = 0;
    };
    static bool is_comparison(const Atom& atom) {
        return atom.kind >= Atom::Kind::AtLeast && atom.kind <= Atom::Kind::Equal;
    }
    /// The atoms of a formula, and how its numbers are read.
    struct Reader {
        std::vector<uint32_t> atoms;
        bool compares = false;                       ///< some atom is a comparison
        bool counts_digits = true;                   ///< the limits below hold
        uint32_t max_integer = 0, max_fraction = 0;  ///< digits; max_fraction 0: no point either
    };
    using State = std::vector<uint64_t>;  // phase, sign, number of digits, then one element per atom
    FormulaId add(Atom atom);
    bool is_unbounded(FormulaId f, const std::vector<uint32_t>& atoms) const;
    Reader reader_of(FormulaId f) const;
    State start(const Reader& reader) const;
    std::optional<State> step(const State& state, char c, const Reader& reader) const;
    bool accepts(FormulaId f, const State& state, const Reader& reader) const;
    /// Nothing if there are too many states.
    std::optional<ByteDfa> explore(FormulaId f, const Reader& reader) const;

    Formulas* formulas_;
    std::vector<Atom> atoms_;
};

/// Removes states from which no accepting state is reachable; empty if the start is one of them.
void trim(ByteDfa& dfa);

}  // namespace tessera::grammar
