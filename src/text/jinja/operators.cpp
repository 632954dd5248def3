// Python's operators: arithmetic on 128-bit integers and doubles, concatenation and repetition of sequences,
// order and equality. Loops over data charge their steps.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "src/text/jinja/format.h"
#include "src/text/jinja/markup.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

const char* op_text(Op op) {
    switch (op) {
        case Op::Add:
            return "+";
        case Op::Sub:
            return "-";
        case Op::Mul:
            return "*";
        case Op::Div:
            return "/";
        case Op::FloorDiv:
            return "//";
        case Op::Mod:
            return "%";
        case Op::Pow:
            return "** or pow()";
        case Op::Lt:
            return "<";
        case Op::Le:
            return "<=";
        case Op::Gt:
            return ">";
        case Op::Ge:
            return ">=";
        default:
            return "in";
    }
}

tl::unexpected<Error> unsupported(Op op, const Value& a, const Value& b) {
    for (const Value* value : {&a, &b})
        if (value->is_undefined() && !value->as_text().empty())
            return fail(ErrorCode::InvalidArgument, "%s", value->as_text().c_str());
    return fail(ErrorCode::InvalidArgument, "unsupported operand type(s) for %s: '%s' and '%s'", op_text(op),
                a.type_name(), b.type_name());
}

tl::unexpected<Error> too_large() {
    return fail(ErrorCode::InvalidArgument, "an integer would need more than 127 bits");
}

tl::unexpected<Error> by_zero() { return fail(ErrorCode::InvalidArgument, "division by zero"); }

Result<Value> int_power(Integer base, Integer exponent) {
    if (exponent < 0) {
        if (base == 0) return fail(ErrorCode::InvalidArgument, "0 cannot be raised to a negative power");
        return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
    }
    Integer result = 1;
    if (base == 0 || base == 1 || base == -1)
        return Value::integer(exponent == 0 ? 1 : base == -1 && exponent % 2 == 0 ? 1 : base);
    for (; exponent > 0; exponent--)
        if (__builtin_mul_overflow(result, base, &result)) return too_large();
    return Value::integer(result);
}

Result<Value> int_arithmetic(Op op, Integer a, Integer b) {
    Integer result = 0;
    switch (op) {
        case Op::Add:
            if (__builtin_add_overflow(a, b, &result)) return too_large();
            return Value::integer(result);
        case Op::Sub:
            if (__builtin_sub_overflow(a, b, &result)) return too_large();
            return Value::integer(result);
        case Op::Mul:
            if (__builtin_mul_overflow(a, b, &result)) return too_large();
            return Value::integer(result);
        case Op::Div:
            if (b == 0) return by_zero();
            return Value::real(static_cast<double>(a) / static_cast<double>(b));
        case Op::Pow:
            return int_power(a, b);
        default:
            break;
    }
    if (b == 0) return by_zero();
    // The only quotient that may overflow; its remainder is 0.
    if (b == -1) return op == Op::Mod ? Value::integer(0) : int_arithmetic(Op::Mul, a, -1);
    const bool apart = a % b != 0 && (a % b < 0) != (b < 0);
    return Value::integer(op == Op::Mod ? a % b + (apart ? b : 0) : a / b - apart);
}

Result<Value> float_arithmetic(Op op, double a, double b) {
    switch (op) {
        case Op::Add:
            return Value::real(a + b);
        case Op::Sub:
            return Value::real(a - b);
        case Op::Mul:
            return Value::real(a * b);
        case Op::Pow: {
            if (a == 0 && b < 0)
                return fail(ErrorCode::InvalidArgument, "0.0 cannot be raised to a negative power");
            const double result = std::pow(a, b);
            if (std::isnan(result) && !std::isnan(a) && !std::isnan(b))
                return fail(ErrorCode::InvalidArgument, "a negative number has no real root");
            return Value::real(result);
        }
        default:
            break;
    }
    if (b == 0) return by_zero();
    if (op == Op::Div) return Value::real(a / b);
    double rest = std::fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
    return Value::real(op == Op::Mod ? rest : std::floor((a - rest) / b + 0.5));
}

bool is_joinable(const Value& value) { return value.is(Kind::List) || value.is(Kind::Tuple); }

}  // namespace

Result<Value> Runtime::negative(const Value& value, bool negate) {
    if (value.is(Kind::Float)) return Value::real(negate ? -value.as_double() : value.as_double());
    if (value.is_integral()) return int_arithmetic(Op::Mul, value.as_int(), negate ? -1 : 1);
    if (value.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", value.as_text().c_str());
    return fail(ErrorCode::InvalidArgument, "bad operand type for unary %c: '%s'", negate ? '-' : '+',
                value.type_name());
}

Result<Value> Runtime::binary(Op op, const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is_integral() && b.is_integral()) return int_arithmetic(op, a.as_int(), b.as_int());
        return float_arithmetic(op, a.as_double(), b.as_double());
    }
    if (op == Op::Add) return add(a, b);
    if (op == Op::Mul) return multiply(a, b);
    if (op == Op::Mod && a.is_text()) return format_percent(*this, a, b);
    return unsupported(op, a, b);
}

Result<Value> Runtime::add(const Value& a, const Value& b) {
    if (a.is_text() && b.is_text()) {
        TSR_TRY_VOID(make_room(a.as_text().size() + b.as_text().size()));
        if (!a.is_markup() && !b.is_markup()) return text(a.as_text() + b.as_text());
        TSR_TRY(const Value left, escape(*this, a));
        TSR_TRY(const Value right, escape(*this, b));
        return markup(left.as_text() + right.as_text());
    }
    if (is_joinable(a) && a.kind() == b.kind()) {
        TSR_TRY_VOID(make_room((a.items().size() + b.items().size()) * sizeof(Value)));
        Value::Items items = a.items();
        items.insert(items.end(), b.items().begin(), b.items().end());
        return a.is(Kind::List) ? list(std::move(items)) : tuple(std::move(items));
    }
    if ((a.is_text() || is_joinable(a)) && !b.is_undefined())
        return fail(ErrorCode::InvalidArgument, "can only concatenate %s (not \"%s\") to %s", a.type_name(),
                    b.type_name(), a.type_name());
    return unsupported(Op::Add, a, b);
}

Result<Value> Runtime::multiply(const Value& a, const Value& b) {
    if ((a.is_text() || is_joinable(a)) && b.is_integral()) return repeat(a, b.as_int());
    if ((b.is_text() || is_joinable(b)) && a.is_integral()) return repeat(b, a.as_int());
    return unsupported(Op::Mul, a, b);
}

Result<Value> Runtime::repeat(const Value& value, Integer times) {
    const size_t unit = value.is_text() ? value.as_text().size() : value.items().size() * sizeof(Value);
    if (times < 0 || unit == 0) times = 0;
    if (times > static_cast<Integer>(limits_.max_live_bytes))
        return fail(ErrorCode::OutOfMemory, "the template holds more than %zu bytes of values",
                    limits_.max_live_bytes);
    const auto n = static_cast<size_t>(times);
    // Division, since the product may overflow.
    TSR_TRY_VOID(
        make_room(unit > 0 && n > limits_.max_live_bytes / unit ? limits_.max_live_bytes + 1 : unit * n));
    if (value.is_text()) {
        std::string out;
        out.reserve(unit * n);
        for (size_t i = 0; i < n; i++) out += value.as_text();
        return text_like(value, std::move(out));
    }
    Value::Items items;
    items.reserve(value.items().size() * n);
    for (size_t i = 0; i < n; i++) items.insert(items.end(), value.items().begin(), value.items().end());
    return value.is(Kind::List) ? list(std::move(items)) : tuple(std::move(items));
}

Result<bool> Runtime::equal(const Value& a, const Value& b) {
    if (a.is_text() && b.is_text()) {
        if (a.as_text().size() != b.as_text().size()) return false;
        TSR_TRY_VOID(charge_bytes(a.as_text().size()));
        return a.as_text() == b.as_text();
    }
    if (a.is_number() || b.is_number()) return Value::same_key(a, b);
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case Kind::Undefined:
        case Kind::None:
            return true;
        case Kind::List:
        case Kind::Tuple:
        case Kind::Range:
        case Kind::View: {
            if (a.items().size() != b.items().size()) return false;
            for (size_t i = 0; i < a.items().size(); i++) {
                TSR_TRY_VOID(charge(1));
                TSR_TRY(const bool same, equal(a.items()[i], b.items()[i]));
                if (!same) return false;
            }
            return true;
        }
        case Kind::Dict: {
            if (a.as_dict().pairs().size() != b.as_dict().pairs().size()) return false;
            for (const auto& [key, value] : a.as_dict().pairs()) {
                TSR_TRY_VOID(charge(1));
                const Value* other = b.as_dict().find(key);
                if (!other) return false;
                TSR_TRY(const bool same, equal(value, *other));
                if (!same) return false;
            }
            return true;
        }
        default:
            return Value::identical(a, b);
    }
}

Result<bool> Runtime::less(const Value& a, const Value& b) {
    if (a.is_number() && b.is_number()) {
        if (a.is_integral() && b.is_integral()) return a.as_int() < b.as_int();
        return a.as_double() < b.as_double();
    }
    if (a.is_text() && b.is_text()) {
        TSR_TRY_VOID(charge_bytes(std::min(a.as_text().size(), b.as_text().size())));
        return a.as_text() < b.as_text();  // byte order equals code point order
    }
    if (is_joinable(a) && a.kind() == b.kind()) {
        const size_t n = std::min(a.items().size(), b.items().size());
        for (size_t i = 0; i < n; i++) {
            TSR_TRY_VOID(charge(1));
            TSR_TRY(const bool same, equal(a.items()[i], b.items()[i]));
            if (!same) return less(a.items()[i], b.items()[i]);
        }
        return a.items().size() < b.items().size();
    }
    if (a.is_undefined() || b.is_undefined()) return unsupported(Op::Lt, a, b);
    return fail(ErrorCode::InvalidArgument, "'<' not supported between instances of '%s' and '%s'",
                a.type_name(), b.type_name());
}

Result<bool> Runtime::compare(Op op, const Value& a, const Value& b) {
    const auto inverse = [](Result<bool> result) -> Result<bool> {
        if (result) *result = !*result;
        return result;
    };
    // Comparisons with NaN are false.
    const bool has_nan =
        a.is_number() && b.is_number() && (std::isnan(a.as_double()) || std::isnan(b.as_double()));
    if (has_nan && op >= Op::Lt && op <= Op::Ge) return false;
    switch (op) {
        case Op::Eq:
            return equal(a, b);
        case Op::Ne:
            return inverse(equal(a, b));
        case Op::Lt:
            return less(a, b);
        case Op::Gt:
            return less(b, a);
        case Op::Le:
            return inverse(less(b, a));
        case Op::Ge:
            return inverse(less(a, b));
        case Op::In:
            return contains(b, a);
        case Op::NotIn:
            return inverse(contains(b, a));
        default:
            return false;
    }
}

Result<size_t> Runtime::find(std::string_view text, std::string_view part, size_t from) {
    if (from > text.size()) return std::string_view::npos;
    TSR_TRY_VOID(charge_bytes(text.size() - from + part.size()));
    if (part.empty()) return from;
    // memmem is linear in the worst case too, which std::string_view::find is not.
    const void* found = memmem(text.data() + from, text.size() - from, part.data(), part.size());
    if (!found) return std::string_view::npos;
    return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

Result<bool> Runtime::contains(const Value& container, const Value& value) {
    if (container.is_text()) {
        if (value.is_undefined()) return fail(ErrorCode::InvalidArgument, "%s", value.as_text().c_str());
        if (!value.is_text())
            return fail(ErrorCode::InvalidArgument, "'in <string>' requires string as left operand, not %s",
                        value.type_name());
        TSR_TRY(const size_t at, find(container.as_text(), value.as_text()));
        return at != std::string_view::npos;
    }
    if (container.is_dict()) {
        if (!value.is_hashable())
            return fail(ErrorCode::InvalidArgument, "unhashable type: '%s'", value.type_name());
        return container.as_dict().find(value) != nullptr;
    }
    if (!container.is_sequence() && !container.is_undefined())
        return fail(ErrorCode::InvalidArgument, "argument of type '%s' is not iterable",
                    container.type_name());
    TSR_TRY(const Value::Items items, walk(container));
    for (const Value& item : items) {
        TSR_TRY(const bool same, equal(item, value));
        if (same) return true;
    }
    return false;
}

}  // namespace tessera::jinja
