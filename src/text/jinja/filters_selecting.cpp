// Filters that apply another filter or a test to a sequence: map, select, reject and similar ones.
#include "common/strings.h"
#include "src/text/jinja/builtins.h"
#include "src/text/jinja/chars.h"
#include "src/text/jinja/member.h"

namespace tessera::jinja {

namespace {

using V = const Value&;
using B = const Bound&;
using Out = Result<Value>;

// A false value has no elements, even if it is not iterable: Jinja checks in this order.
Result<Value::Items> elements(Runtime& runtime, V self) {
    if (!self.truthy()) return Value::Items();
    return runtime.walk(self);
}

// The arguments after the first n.
Args rest_of(const Args& args, size_t n) {
    Args rest;
    rest.named = args.named;
    if (args.positional.size() > n)
        rest.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(n), args.positional.end());
    return rest;
}

Result<std::string> name_argument(const Args& args, size_t i, const char* what) {
    if (args.positional.size() > i && args.positional[i].is_text()) return args.positional[i].as_text();
    return fail(ErrorCode::InvalidArgument, "expected the name of a %s", what);
}

Out map_attribute(Runtime& runtime, const Value::Items& items, const Args& args) {
    Value attribute, preset;
    for (const auto& [name, value] : args.named) {
        if (name == "attribute") {
            attribute = value;
        } else if (name == "default") {
            preset = value;
        } else {
            return fail(ErrorCode::InvalidArgument, "Unexpected keyword argument '%s'",
                        printable(name).c_str());
        }
    }
    const MemberPath path(attribute, preset);
    Value::Items out;
    for (const Value& item : items) {
        TSR_TRY(Value member, path.of(runtime, item));
        out.push_back(std::move(member));
    }
    return runtime.generator(std::move(out));
}

Out map(Runtime& runtime, V self, B args) {
    const Args& raw = args.raw();
    TSR_TRY(const Value::Items items, elements(runtime, self));
    const bool by_attribute = raw.positional.empty() && !raw.named.empty();
    if (by_attribute) return map_attribute(runtime, items, raw);
    TSR_TRY(const std::string name, name_argument(raw, 0, "filter"));
    const Args rest = rest_of(raw, 1);
    Value::Items out;
    for (const Value& item : items) {
        TSR_TRY_VOID(runtime.charge(1));
        TSR_TRY(Value mapped, runtime.filter(name, item, rest));
        out.push_back(std::move(mapped));
    }
    return runtime.generator(std::move(out));
}

// With an attribute, its value is tested; without a test, its truth.
template <bool keeps, bool by_attribute>
Out select(Runtime& runtime, V self, B args) {
    const Args& raw = args.raw();
    TSR_TRY(const Value::Items items, elements(runtime, self));
    Value attribute = Value::none();
    if (by_attribute) {
        if (raw.positional.empty())
            return fail(ErrorCode::InvalidArgument, "expected the name of an attribute");
        attribute = raw.positional[0];
    }
    const MemberPath path(attribute);
    const bool has_test = raw.positional.size() > by_attribute;
    std::string name;
    if (has_test) {
        TSR_TRY(name, name_argument(raw, by_attribute, "test"));
    }
    const Args rest = rest_of(raw, by_attribute + 1);
    Value::Items out;
    for (const Value& item : items) {
        TSR_TRY_VOID(runtime.charge(1));
        TSR_TRY(const Value member, path.of(runtime, item));
        TSR_TRY(const bool passes,
                has_test ? runtime.test(name, member, rest) : Result<bool>(member.truthy()));
        if (passes == keeps) out.push_back(item);
    }
    return runtime.generator(std::move(out));
}

constexpr Builtin kSelectingFilters[] = {
    {"map", "*", map},
    {"select", "*", select<true, false>},
    {"reject", "*", select<false, false>},
    {"selectattr", "*", select<true, true>},
    {"rejectattr", "*", select<false, true>},
};

}  // namespace

BuiltinTable selecting_filters() { return kSelectingFilters; }

MemberPath::MemberPath(const Value& attribute, Value preset) : preset_(std::move(preset)) {
    if (!attribute.is_text()) {
        if (!attribute.is_none() && !attribute.is_undefined()) keys_.push_back(attribute);
        return;
    }
    for (const std::string_view part : split(attribute.as_text(), '.')) {
        const std::optional<int64_t> index = parse_int(part);
        keys_.push_back(index && *index >= 0 ? Value::integer(*index) : Value::text(std::string(part)));
    }
}

Result<Value> MemberPath::of(Runtime& runtime, const Value& item) const {
    Value value = item;
    for (const Value& key : keys_) {
        TSR_TRY(value, runtime.item(value, key));
        if (value.is_undefined() && !preset_.is_undefined()) value = preset_;
    }
    return value;
}

Value without_case(Runtime& runtime, Value value) {
    return value.is_text() ? runtime.text(lower(value.as_text())) : std::move(value);
}

}  // namespace tessera::jinja
