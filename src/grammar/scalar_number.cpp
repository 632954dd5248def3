// Number schemas as automata. Each condition reads the digits one by one: a comparison keeps the length of
// the integer part and the first difference, a multiple keeps a remainder. The formula then tells in which
// states a number may end. Next: goals.cpp, which builds the formulas.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "common/strings.h"
#include "src/grammar/scalars.h"

namespace tessera::grammar {

namespace {

constexpr size_t kMaxDigits = 1000;
constexpr size_t kMaxNumberStates = 60'000;
constexpr uint64_t kMaxModulus = 1'000'000'000;

// Longest runs of digits where the schema gives no bound: a model that repeats itself would write digits
// until its context is full. 16 digits fit an int64; JavaScript writes numbers of up to 21 without exponent.
constexpr uint32_t kIntegerDigits = 16, kNumberDigits = 21;
constexpr size_t kMaxOtherAtoms = 4;

// State element 0.
enum Phase : uint64_t { kStart, kMinus, kZero, kInteger, kPoint, kFraction };
// kDigits: digits read in the current part, before or after the point.
constexpr size_t kPhase = 0, kSign = 1, kDigits = 2, kAtoms = 3;

// State of an Integer atom.
enum Whole : uint64_t { kWhole, kNotWhole };

// Comparison of the digits so far with those of a bound.
enum Order : uint64_t { kLess, kEqual, kGreater };

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

/// Before the point: digits read (up to one more than the bound has), and the order of the common digits.
uint64_t compare_integer(uint64_t state, char c, const std::string& bound) {
    uint64_t n = state / 3, order = state % 3;
    if (n < bound.size() && order == kEqual) order = c < bound[n] ? kLess : c > bound[n] ? kGreater : kEqual;
    n = std::min<uint64_t>(n + 1, bound.size() + 1);
    return n * 3 + order;
}

Order integer_order(uint64_t state, const std::string& bound) {
    const uint64_t n = state / 3;
    if (n != bound.size()) return n < bound.size() ? kLess : kGreater;
    return static_cast<Order>(state % 3);
}

/// After the point: digits read while still equal (up to one more than the bound has), and the order.
uint64_t compare_fraction(uint64_t state, char c, const std::string& bound) {
    const uint64_t at = state / 3;
    if (state % 3 != kEqual) return state % 3;
    const char want = at < bound.size() ? bound[at] : '0';
    if (c != want) return c < want ? kLess : kGreater;
    return std::min<uint64_t>(at + 1, bound.size() + 1) * 3 + kEqual;
}

Order fraction_order(uint64_t state, const std::string& bound) {
    if (state % 3 == kEqual && state / 3 < bound.size()) return kLess;
    return static_cast<Order>(state % 3);
}

uint64_t power_of_ten(uint32_t exponent, uint64_t modulus) {
    uint64_t power = 1 % modulus;
    for (uint32_t i = 0; i < exponent; i++) power = power * 10 % modulus;
    return power;
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
    Decimal result;
    if (!text.empty() && text[0] == '-') {
        result.negative = true;
        text.remove_prefix(1);
    }
    int64_t exponent = 0;
    if (const size_t e = text.find_first_of("eE"); e != text.npos) {
        std::string_view digits = text.substr(e + 1);
        if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
        const auto value = parse_int(digits);
        if (!value || std::abs(*value) > static_cast<int64_t>(kMaxDigits)) return std::nullopt;
        exponent = *value;
        text = text.substr(0, e);
    }
    const size_t point = text.find('.');
    std::string digits(text.substr(0, point));
    auto n_integer = static_cast<int64_t>(digits.size());
    if (point != text.npos) digits += text.substr(point + 1);
    if (digits.size() > kMaxDigits) return std::nullopt;
    n_integer += exponent;
    if (n_integer <= 0) {
        digits.insert(0, static_cast<size_t>(1 - n_integer), '0');
        n_integer = 1;
    }
    if (n_integer > static_cast<int64_t>(digits.size())) digits.resize(static_cast<size_t>(n_integer), '0');
    result.integer = digits.substr(0, static_cast<size_t>(n_integer));
    result.fraction = digits.substr(static_cast<size_t>(n_integer));
    result.integer.erase(0, std::min(result.integer.find_first_not_of('0'), result.integer.size() - 1));
    result.fraction.resize(result.fraction.find_last_not_of('0') + 1);
    if (result.is_zero()) result.negative = false;
    return result;
}

std::string Decimal::text() const {
    return (negative ? "-" : "") + integer + (fraction.empty() ? "" : "." + fraction);
}

FormulaId NumberLanguage::add(Atom atom) {
    atoms_.push_back(std::move(atom));
    return formulas_->atom(static_cast<uint32_t>(atoms_.size() - 1));
}

FormulaId NumberLanguage::integer() { return add({Atom::Kind::Integer, {}}); }
FormulaId NumberLanguage::at_least(const Decimal& bound) { return add({Atom::Kind::AtLeast, bound}); }
FormulaId NumberLanguage::above(const Decimal& bound) { return add({Atom::Kind::Above, bound}); }
FormulaId NumberLanguage::equal(const Decimal& value) { return add({Atom::Kind::Equal, value}); }

Result<FormulaId> NumberLanguage::multiple_of(const Decimal& step) {
    const std::string digits = step.integer + step.fraction;
    const auto modulus = digits.size() <= 18 ? parse_int(digits) : std::nullopt;
    if (!modulus || static_cast<uint64_t>(*modulus) > kMaxModulus)
        return fail(ErrorCode::Unsupported, "a step of %s has too many digits to be enforced",
                    printable(step.text()).c_str());
    if (*modulus == 1 && step.fraction.empty()) return integer();
    return add({Atom::Kind::Multiple, step, static_cast<uint64_t>(*modulus),
                static_cast<uint32_t>(step.fraction.size())});
}

/// Whether the formula may hold for numbers beyond all its bounds, of either sign.
bool NumberLanguage::is_unbounded(FormulaId f, const std::vector<uint32_t>& atoms) const {
    std::vector<uint32_t> others;  // integers and multiples, which large numbers may or may not be
    for (const uint32_t index : atoms)
        if (!is_comparison(atoms_[index])) others.push_back(index);
    if (others.size() > kMaxOtherAtoms) return true;
    for (const bool negative : {false, true}) {
        for (size_t subset = 0; subset < size_t{1} << others.size(); subset++) {
            const auto holds_here = [&](uint32_t index) {
                if (is_comparison(atoms_[index])) return !negative && atoms_[index].kind != Atom::Kind::Equal;
                return (subset >> (std::find(others.begin(), others.end(), index) - others.begin()) & 1) != 0;
            };
            if (formulas_->evaluate(f, holds_here)) return true;
        }
    }
    return false;
}

NumberLanguage::Reader NumberLanguage::reader_of(FormulaId f) const {
    Reader reader;
    formulas_->collect_atoms(f, reader.atoms);
    std::vector<uint32_t> implied;
    const auto is_integer = [&](uint32_t atom) { return atoms_[atom].kind == Atom::Kind::Integer; };
    const bool integers = formulas_->implied_atoms(f, is_integer, implied);
    const bool unbounded = is_unbounded(f, reader.atoms);
    if (unbounded) reader.max_integer = integers ? kIntegerDigits : kNumberDigits;
    reader.max_fraction = integers ? 0 : kNumberDigits;
    for (const uint32_t index : reader.atoms) {
        const Atom& atom = atoms_[index];
        reader.compares |= is_comparison(atom);
        // One more than a bound: the next multiple above 99 is 100.
        reader.max_integer = std::max(reader.max_integer,
                                      static_cast<uint32_t>(atom.value.integer.size()) + (unbounded ? 1 : 0));
        if (!integers)
            reader.max_fraction =
                std::max(reader.max_fraction, static_cast<uint32_t>(atom.value.fraction.size()) + 1);
    }
    return reader;
}

NumberLanguage::State NumberLanguage::start(const Reader& reader) const {
    State state(kAtoms + reader.atoms.size(), 0);
    for (size_t i = 0; i < reader.atoms.size(); i++)
        if (is_comparison(atoms_[reader.atoms[i]])) state[kAtoms + i] = kEqual;
    return state;
}

std::optional<NumberLanguage::State> NumberLanguage::step(const State& from, char c,
                                                          const Reader& reader) const {
    State to = from;
    const std::vector<uint32_t>& atoms = reader.atoms;
    const uint64_t phase = from[kPhase];
    if (c == '-') {
        if (phase != kStart) return std::nullopt;
        to[kPhase] = kMinus;
        to[kSign] = 1;
        return to;
    }
    if (c == '.') {
        if (phase != kZero && phase != kInteger) return std::nullopt;
        if (reader.max_fraction == 0) return std::nullopt;
        to[kPhase] = kPoint;
        to[kDigits] = 0;
    } else if (!is_ascii_digit(c) || phase == kZero) {
        return std::nullopt;
    } else if (phase == kStart || phase == kMinus) {
        to[kPhase] = c == '0' ? kZero : kInteger;
    } else if (phase == kPoint) {
        to[kPhase] = kFraction;
    }
    const bool in_fraction = phase == kPoint || phase == kFraction;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (c != '.' && reader.counts_digits) {
        to[kDigits]++;
        if (to[kDigits] > (in_fraction ? reader.max_fraction : reader.max_integer)) return std::nullopt;
    }
    // Comparisons need the sign; apart from them it only tells "-0" from "0".
    if (!reader.compares && to[kPhase] != kZero) to[kSign] = 0;
    for (size_t i = 0; i < atoms.size(); i++) {
        const Atom& atom = atoms_[atoms[i]];
        uint64_t& s = to[kAtoms + i];
        switch (atom.kind) {
            case Atom::Kind::Integer:
                if (in_fraction && c != '.' && c != '0') s = kNotWhole;
                break;
            case Atom::Kind::AtLeast:
            case Atom::Kind::Above:
            case Atom::Kind::Equal:
                // Compares absolute values; accepts() takes the signs into account.
                if (c == '.')
                    s = integer_order(s, atom.value.integer);
                else
                    s = in_fraction ? compare_fraction(s, c, atom.value.fraction)
                                    : compare_integer(s, c, atom.value.integer);
                break;
            case Atom::Kind::Multiple: {
                // remainder + modulus * (fraction digits read + 1, or 0 before the point)
                const uint64_t m = atom.modulus, remainder = s % m, read = s / m;
                if (c == '.')
                    s = remainder + m;
                else if (!in_fraction)
                    s = (remainder * 10 + digit * power_of_ten(atom.digits, m)) % m;
                else if (read <= atom.digits)
                    s = (remainder + digit * power_of_ten(atom.digits - static_cast<uint32_t>(read), m)) % m +
                        m * (read + 1);
                else if (digit != 0)
                    s = m * (atom.digits + 2);  // more digits than any multiple has
                break;
            }
        }
    }
    return to;
}

bool NumberLanguage::accepts(FormulaId f, const State& state, const Reader& reader) const {
    const uint64_t phase = state[kPhase];
    if (phase != kZero && phase != kInteger && phase != kFraction) return false;
    const bool negative = state[kSign] != 0, is_minus_zero = negative && phase == kZero;
    // First by value. Then again with integers and listed values recognized in their plain spelling only, so
    // that "1.0", "1.50" and "-0" are refused if the formula depends on their being an integer or a listed
    // value.
    bool by_value = true;
    const auto holds_here = [&](uint32_t index) {
        const auto i = static_cast<size_t>(std::find(reader.atoms.begin(), reader.atoms.end(), index) -
                                           reader.atoms.begin());
        const uint64_t s = state[kAtoms + i];
        const Atom& atom = atoms_[index];
        if (atom.kind == Atom::Kind::Integer)
            return s == kWhole && (by_value || (phase != kFraction && !is_minus_zero));
        if (atom.kind == Atom::Kind::Multiple)
            return s % atom.modulus == 0 && s / atom.modulus != atom.digits + 2;
        const uint64_t in_fraction = phase == kFraction ? s : uint64_t{integer_order(s, atom.value.integer)};
        Order order = fraction_order(in_fraction, atom.value.fraction);  // of the absolute values
        if (negative && !atom.value.negative && !(atom.value.is_zero() && order == kEqual))
            order = kLess;
        else if (!negative && atom.value.negative)
            order = kGreater;
        else if (negative && atom.value.negative)
            order = order == kLess ? kGreater : order == kGreater ? kLess : kEqual;
        if (atom.kind == Atom::Kind::AtLeast) return order != kLess;
        if (atom.kind == Atom::Kind::Above) return order == kGreater;
        const bool has_more_zeros = in_fraction / 3 > atom.value.fraction.size();
        return order == kEqual && (by_value || (!has_more_zeros && !is_minus_zero));
    };
    if (!formulas_->evaluate(f, holds_here)) return false;
    by_value = false;
    return formulas_->evaluate(f, holds_here);
}

bool NumberLanguage::holds(FormulaId f, std::string_view number) const {
    const Reader reader = reader_of(f);
    State state = start(reader);
    for (const char c : number) {
        const auto next = step(state, c, reader);
        if (!next) return false;
        state = *next;
    }
    return accepts(f, state, reader);
}

std::optional<std::vector<std::string>> NumberLanguage::enumerate(FormulaId f) const {
    std::vector<uint32_t> atoms;
    const auto is_value = [&](uint32_t atom) { return atoms_[atom].kind == Atom::Kind::Equal; };
    if (!formulas_->implied_atoms(f, is_value, atoms)) return std::nullopt;
    std::vector<std::string> texts;
    for (const uint32_t atom : atoms) {
        const std::string text = atoms_[atom].value.text();
        if (std::find(texts.begin(), texts.end(), text) == texts.end() && holds(f, text))
            texts.push_back(text);
    }
    return texts;
}

std::optional<ByteDfa> NumberLanguage::explore(FormulaId f, const Reader& reader) const {
    ByteDfa out;
    std::map<State, uint32_t> ids;
    std::vector<const State*> states;
    const auto intern = [&](State state) {
        const auto [at, is_new] = ids.try_emplace(std::move(state), static_cast<uint32_t>(states.size()));
        if (is_new) {
            states.push_back(&at->first);
            out.states.push_back({{}, accepts(f, at->first, reader)});
        }
        return at->second;
    };
    intern(start(reader));
    for (size_t i = 0; i < states.size(); i++) {
        if (states.size() > kMaxNumberStates) return std::nullopt;
        for (const char c : std::string_view("-.0123456789")) {
            auto next = step(*states[i], c, reader);
            if (!next) continue;
            const uint32_t to = intern(std::move(*next));
            const auto byte = static_cast<uint8_t>(c);
            auto& edges = out.states[i].edges;
            if (!edges.empty() && edges.back().to == to && edges.back().hi + 1 == byte)
                edges.back().hi = byte;
            else
                edges.push_back({byte, byte, to});
        }
    }
    trim(out);
    return out;
}

Result<ExprId> NumberLanguage::emit(FormulaId f, Program& program) {
    if (f == Formulas::kFalse) return program.never();
    if (f == Formulas::kTrue) {
        const ExprId digit = program.chars({{'0', '9'}});
        const ExprId integer = program.alt(
            {program.bytes("0"),
             program.seq({program.chars({{'1', '9'}}), program.repeat(digit, 0, kNumberDigits - 1)})});
        const ExprId fraction = program.seq({program.bytes("."), program.repeat(digit, 1, kNumberDigits)});
        const ExprId sign = program.chars({{'+', '+'}, {'-', '-'}});
        // At most 299: a number that no double holds would be refused or changed by its reader.
        const ExprId power = program.alt(
            {program.repeat(digit, 1, 2), program.seq({program.chars({{'1', '2'}}), digit, digit})});
        const ExprId exponent =
            program.seq({program.chars({{'E', 'E'}, {'e', 'e'}}), program.optional(sign), power});
        return program.seq({program.optional(program.bytes("-")), integer, program.optional(fraction),
                            program.optional(exponent)});
    }
    Reader reader = reader_of(f);
    auto dfa = explore(f, reader);
    if (!dfa) {
        // Large steps times 16 digits are too many states; without counting there are fewer.
        reader.counts_digits = false;
        dfa = explore(f, reader);
    }
    if (!dfa)
        return fail(ErrorCode::Unsupported,
                    "the bounds and steps of this number together need more than %zu states",
                    kMaxNumberStates);
    return dfa->states.empty() ? program.never() : program.dfa(std::move(*dfa));
}

}  // namespace tessera::grammar
