// Numbers: every condition reads the digits as they come (a comparison needs to know how long the integer
// part has become and where it first differs; a multiple needs a remainder), and the formula is asked where a
// number may end. Next: goals.cpp, which makes the formulas.
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

// State element 0.
enum Phase : uint64_t { kStart, kMinus, kZero, kInteger, kPoint, kFraction };
constexpr size_t kPhase = 0, kSign = 1, kAtoms = 2;

// An integer so far; one that is written as such or with a single zero behind the point is enough, since
// a model that likes to repeat itself would write zeros without end.
enum Whole : uint64_t { kWhole, kNotWhole, kWholeWithZero, kWholeWithZeros };

// Comparison of the digits so far with those of a bound.
enum Order : uint64_t { kLess, kEqual, kGreater };

bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

/// Before the point: digits read (up to one more than the bound has), and the order of those both have.
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

/// Behind the point: digits read while still equal, and the order.
uint64_t compare_fraction(uint64_t state, char c, const std::string& bound) {
    const uint64_t at = state / 3;
    if (state % 3 != kEqual) return state % 3;
    const char want = at < bound.size() ? bound[at] : '0';
    if (c != want) return c < want ? kLess : kGreater;
    return std::min<uint64_t>(at + 1, bound.size()) * 3 + kEqual;
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

NumberLanguage::State NumberLanguage::start(const std::vector<uint32_t>& atoms) const {
    State state(kAtoms + atoms.size(), 0);
    for (size_t i = 0; i < atoms.size(); i++)
        if (atoms_[atoms[i]].kind >= Atom::Kind::AtLeast && atoms_[atoms[i]].kind <= Atom::Kind::Equal)
            state[kAtoms + i] = kEqual;
    return state;
}

std::optional<NumberLanguage::State> NumberLanguage::step(const State& from, char c,
                                                          const std::vector<uint32_t>& atoms) const {
    State to = from;
    const uint64_t phase = from[kPhase];
    if (c == '-') {
        if (phase != kStart) return std::nullopt;
        to[kPhase] = kMinus;
        to[kSign] = 1;
        return to;
    }
    if (c == '.') {
        if (phase != kZero && phase != kInteger) return std::nullopt;
        to[kPhase] = kPoint;
    } else if (!is_ascii_digit(c) || phase == kZero) {
        return std::nullopt;
    } else if (phase == kStart || phase == kMinus) {
        to[kPhase] = c == '0' ? kZero : kInteger;
    } else if (phase == kPoint) {
        to[kPhase] = kFraction;
    }
    const bool in_fraction = phase == kPoint || phase == kFraction;
    const auto digit = static_cast<uint64_t>(c - '0');
    for (size_t i = 0; i < atoms.size(); i++) {
        const Atom& atom = atoms_[atoms[i]];
        uint64_t& s = to[kAtoms + i];
        switch (atom.kind) {
            case Atom::Kind::Integer:
                if (in_fraction && c != '0') s = kNotWhole;
                if (in_fraction && c == '0' && s != kNotWhole)
                    s = s == kWhole ? kWholeWithZero : kWholeWithZeros;
                break;
            case Atom::Kind::AtLeast:
            case Atom::Kind::Above:
            case Atom::Kind::Equal:
                // Across zero the sign decides; only whether the number is zero may still matter.
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

bool NumberLanguage::accepts(FormulaId f, const State& state, const std::vector<uint32_t>& atoms) const {
    const uint64_t phase = state[kPhase];
    if (phase != kZero && phase != kInteger && phase != kFraction) return false;
    // "1.00" is whole, yet never accepted for being so: the formula must hold either way.
    bool is_integer = true;
    const auto holds_here = [&](uint32_t index) {
        const auto i = static_cast<size_t>(std::find(atoms.begin(), atoms.end(), index) - atoms.begin());
        const uint64_t s = state[kAtoms + i];
        const Atom& atom = atoms_[index];
        if (atom.kind == Atom::Kind::Integer) return s == kWholeWithZeros ? is_integer : s != kNotWhole;
        if (atom.kind == Atom::Kind::Multiple)
            return s % atom.modulus == 0 && s / atom.modulus != atom.digits + 2;
        const uint64_t in_fraction = phase == kFraction ? s : uint64_t{integer_order(s, atom.value.integer)};
        Order order = fraction_order(in_fraction, atom.value.fraction);  // of the sizes without sign
        const bool negative = state[kSign] != 0;
        if (negative && !atom.value.negative && !(atom.value.is_zero() && order == kEqual))
            order = kLess;
        else if (!negative && atom.value.negative)
            order = kGreater;
        else if (negative && atom.value.negative)
            order = order == kLess ? kGreater : order == kGreater ? kLess : kEqual;
        if (atom.kind == Atom::Kind::AtLeast) return order != kLess;
        return atom.kind == Atom::Kind::Above ? order == kGreater : order == kEqual;
    };
    if (!formulas_->evaluate(f, holds_here)) return false;
    is_integer = false;
    return formulas_->evaluate(f, holds_here);
}

bool NumberLanguage::holds(FormulaId f, std::string_view number) const {
    std::vector<uint32_t> atoms;
    formulas_->collect_atoms(f, atoms);
    State state = start(atoms);
    for (const char c : number) {
        const auto next = step(state, c, atoms);
        if (!next) return false;
        state = *next;
    }
    return accepts(f, state, atoms);
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

Result<ByteDfa> NumberLanguage::explore(FormulaId f) const {
    std::vector<uint32_t> atoms;
    formulas_->collect_atoms(f, atoms);
    ByteDfa out;
    std::map<State, uint32_t> ids;
    std::vector<const State*> states;
    const auto intern = [&](State state) {
        const auto [at, is_new] = ids.try_emplace(std::move(state), static_cast<uint32_t>(states.size()));
        if (is_new) {
            states.push_back(&at->first);
            out.states.push_back({{}, accepts(f, at->first, atoms)});
        }
        return at->second;
    };
    intern(start(atoms));
    for (size_t i = 0; i < states.size(); i++) {
        if (states.size() > kMaxNumberStates)
            return fail(ErrorCode::Unsupported,
                        "the bounds and steps of this number together need too many states");
        for (const char c : std::string_view("-.0123456789")) {
            auto next = step(*states[i], c, atoms);
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
        const ExprId digits = program.repeat(digit, 1, kUnbounded);
        const ExprId integer =
            program.alt({program.bytes("0"),
                         program.seq({program.chars({{'1', '9'}}), program.repeat(digit, 0, kUnbounded)})});
        const ExprId sign = program.chars({{'+', '+'}, {'-', '-'}});
        // Below 300: readers keep such numbers, and refuse or mangle what no double holds.
        const ExprId power = program.alt(
            {program.repeat(digit, 1, 2), program.seq({program.chars({{'1', '2'}}), digit, digit})});
        return program.seq({program.optional(program.bytes("-")), integer,
                            program.optional(program.seq({program.bytes("."), digits})),
                            program.optional(program.seq(
                                {program.chars({{'E', 'E'}, {'e', 'e'}}), program.optional(sign), power}))});
    }
    TSR_TRY(ByteDfa dfa, explore(f));
    return dfa.states.empty() ? program.never() : program.dfa(std::move(dfa));
}

}  // namespace tessera::grammar
