// The tests of `x is name`, one row each, which return a boolean.
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/runtime.h"

namespace tessera::jinja {

namespace {

using V = const Value&;
using B = const Bound&;
using Out = Result<Value>;

Out yes(bool holds) { return Value::boolean(holds); }

template <Kind... kinds>
Out is_kind(Runtime&, V self, B) {
    return yes((self.is(kinds) || ...));
}

template <Op op>
Out compares(Runtime& runtime, V self, B args) {
    TSR_TRY(const bool holds, runtime.compare(op, self, *args[0]));
    return yes(holds);
}

Out modulo(Runtime& runtime, V self, V divisor, Integer wanted) {
    TSR_TRY(const Value rest, runtime.binary(Op::Mod, self, divisor));
    return yes(rest.is_number() && rest.as_double() == static_cast<double>(wanted));
}

Out is_defined(Runtime&, V self, B) { return yes(!self.is_undefined()); }
Out is_odd(Runtime& runtime, V self, B) { return modulo(runtime, self, Value::integer(2), 1); }
Out is_even(Runtime& runtime, V self, B) { return modulo(runtime, self, Value::integer(2), 0); }
Out is_divisible(Runtime& runtime, V self, B args) { return modulo(runtime, self, *args[0], 0); }
Out is_true(Runtime&, V self, B) { return yes(self.is(Kind::Bool) && self.as_bool()); }
Out is_false(Runtime&, V self, B) { return yes(self.is(Kind::Bool) && !self.as_bool()); }
Out is_same(Runtime&, V self, B args) { return yes(Value::identical(self, *args[0])); }

// Python checks for the method __call__, which Undefined has too.
Out is_callable(Runtime&, V self, B) {
    return yes(self.is_undefined() || (self.is(Kind::Object) && self.as_object().is_callable()));
}
Out is_iterable(Runtime&, V self, B) {
    return yes(self.is_undefined() || self.is_text() || self.is_dict() || self.is_sequence());
}
Out is_sequence(Runtime&, V self, B) {
    return yes(self.is_text() || self.is_dict() || self.is(Kind::List) || self.is(Kind::Tuple) ||
               self.is(Kind::Range) || self.is_undefined());
}

// Whether there are characters with case, and all of them have this one.
template <bool want_upper>
Out has_case(Runtime& runtime, V self, B) {
    TSR_TRY(const std::string text, runtime.str(self));
    TSR_TRY_VOID(runtime.charge_bytes(text.size()));
    return yes(want_upper ? text == upper(text) && text != lower(text)
                          : text == lower(text) && text != upper(text));
}

Out is_filter(Runtime&, V self, B) { return yes(self.is_text() && find_filter(self.as_text())); }
Out is_test(Runtime&, V self, B) { return yes(self.is_text() && find_test(self.as_text())); }

Out is_in(Runtime& runtime, V self, B args) {
    TSR_TRY(const bool holds, runtime.contains(*args[0], self));
    return yes(holds);
}

constexpr Builtin kTests[] = {
    {"defined", "", is_defined},
    {"undefined", "", is_kind<Kind::Undefined>},
    {"none", "", is_kind<Kind::None>},
    {"boolean", "", is_kind<Kind::Bool>},
    {"integer", "", is_kind<Kind::Int>},
    {"float", "", is_kind<Kind::Float>},
    {"number", "", is_kind<Kind::Bool, Kind::Int, Kind::Float>},
    {"string", "", is_kind<Kind::String>},
    {"mapping", "", is_kind<Kind::Dict>},
    {"iterable", "", is_iterable},
    {"sequence", "", is_sequence},
    {"callable", "", is_callable},
    {"true", "", is_true},
    {"false", "", is_false},
    {"odd", "", is_odd},
    {"even", "", is_even},
    {"divisibleby", "num", is_divisible},
    {"sameas", "other", is_same},
    {"lower", "", has_case<false>},
    {"upper", "", has_case<true>},
    {"filter", "", is_filter},
    {"test", "", is_test},
    {"in", "seq", is_in},
    {"eq", "b", compares<Op::Eq>},
    {"equalto", "b", compares<Op::Eq>},
    {"==", "b", compares<Op::Eq>},
    {"ne", "b", compares<Op::Ne>},
    {"!=", "b", compares<Op::Ne>},
    {"lt", "b", compares<Op::Lt>},
    {"lessthan", "b", compares<Op::Lt>},
    {"<", "b", compares<Op::Lt>},
    {"le", "b", compares<Op::Le>},
    {"<=", "b", compares<Op::Le>},
    {"gt", "b", compares<Op::Gt>},
    {"greaterthan", "b", compares<Op::Gt>},
    {">", "b", compares<Op::Gt>},
    {"ge", "b", compares<Op::Ge>},
    {">=", "b", compares<Op::Ge>},
    {"escaped", "", [](Runtime&, V self, B) { return yes(self.is_markup()); }},
};

}  // namespace

const Builtin* find_test(std::string_view name) { return find_row(kTests, name); }

}  // namespace tessera::jinja
